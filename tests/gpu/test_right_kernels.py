"""The right kernels of tests/model/right, interpreted and on the GPU in turn, against the same references.

What the interpreter says of a kernel is worth something only if the GPU says the same.
"""

from __future__ import annotations

from tests.model.right import test_matmul, test_patterns, test_rowwise

for _module in (test_matmul, test_patterns, test_rowwise):
    for _name, _thing in list(vars(_module).items()):
        if _name.startswith("test_"):
            assert _name not in globals(), f"{_name} is there twice"
            globals()[_name] = _thing
