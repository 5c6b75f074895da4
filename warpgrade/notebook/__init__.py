"""What a notebook imports: `check`, `hint` and `interpret`, and `grade` for the author.

`check("relu")` runs the public tests on the definitions of all cells that this session has run, by the Judge's own
rule, in a fresh child process. A kernel does not know which of its cells were deleted since: restart it before you
submit. `check` raises when a test fails, or nbgrader's Validate would say "Success".

`with interpret():` runs the kernels that are launched inside on the CPU and says what is wrong with them.
"""

from warpgrade.notebook.checks import CheckFailed, check, grade, hint
from warpgrade.notebook.interpret import KernelFailed, interpret

__all__ = ["CheckFailed", "KernelFailed", "check", "grade", "hint", "interpret"]
