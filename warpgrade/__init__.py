"""warpgrade: an auto-graded course in GPU programming, and the grader behind it.

This module stays empty but for the version: the sandboxed worker imports it too.
"""

__version__ = "0.1.0"
