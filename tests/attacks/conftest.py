"""Where the attacks' course and code lie; see test_attacks.py."""

# These are data: a course, and cells of code to hand in. `course/course_tests` holds suites for the Judge, not for us.
collect_ignore = ["course", "judge", "notebooks", "forked.py", "classroom.py"]
