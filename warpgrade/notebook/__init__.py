"""What a notebook imports: `check`, `hint`, and `grade` for the author.

`check("relu")` runs the public tests on the notebook's definitions by the Judge's own rule, in a fresh child process:
a name that only an old, deleted cell defined does not pass. It raises when a test fails, or nbgrader's Validate would
say "Success".
"""

from warpgrade.notebook.checks import CheckFailed, check, grade, hint

__all__ = ["CheckFailed", "check", "grade", "hint"]
