"""The first file that runs in the sandbox: `python -I boot.py SOCKET_FD PLAN`.

`-I` keeps the current folder, PYTHONPATH and user site-packages out of `sys.path`, so a folder called `torch` beside
a notebook is never imported. The folder that holds this package is put in front by hand: in the sandbox that is a
folder with `worker` and `wire` alone, whatever the installation outside looks like.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from warpgrade.worker.main import main

    main(int(sys.argv[1]), sys.argv[2])
