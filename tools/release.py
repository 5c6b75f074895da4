"""Makes release/ from source/ with nbgrader, in a course root of its own, so that no gradebook is touched.

`python tools/release.py --write` replaces release/ of this course. `tests/test_release.py` uses `make` to see whether
what is committed is current.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]


class ReleaseError(Exception):
    """nbgrader refused. The text is what it said."""


def assignments(course: Path = COURSE) -> list[str]:
    """The assignments that have an instructor's notebook, and so a release."""
    return sorted({notebook.parent.name for notebook in (course / "source").glob("*/*.ipynb")})


def make(assignment: str, root: Path, course: Path = COURSE) -> Path:
    """Make the release of one assignment in the empty folder `root`; the folder that it is in.

    Raises ReleaseError where nbgrader does not make one.
    """
    ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    shutil.copytree(course / "source" / assignment, root / "source" / assignment, ignore=ignored)
    shutil.copy(course / "nbgrader_config.py", root)
    (root / "course_tests").symlink_to(course / "course_tests")
    # Nothing of the person's own Jupyter configuration: the release must be the same whoever makes it.
    # nbgrader starts `alembic` by name, which is found only if the environment's programs are on the PATH.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = {
        **os.environ,
        "PATH": programs,
        "JUPYTER_CONFIG_DIR": str(root / ".jupyter"),
        "JUPYTER_NO_CONFIG": "1",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nbgrader", "generate_assignment", assignment, "--create", "--force"],
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    made = root / "release" / assignment
    if done.returncode != 0 or not made.is_dir():
        raise ReleaseError(f"nbgrader did not release {assignment} (exit status {done.returncode}):\n{done.stdout}")
    return made


def files(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and ".ipynb_checkpoints" not in path.parts
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", required=True, help="replace release/ of this course")
    parser.parse_args()
    names = assignments()
    if not names:
        sys.exit("nothing to release: there is no notebook in source/*/")
    for name in names:
        with tempfile.TemporaryDirectory() as root:
            try:
                made = make(name, Path(root))
            except ReleaseError as error:
                sys.exit(str(error))
            target = COURSE / "release" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(made, target)
        print(f"release/{name}: {', '.join(files(target))}")


if __name__ == "__main__":
    main()
