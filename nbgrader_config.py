"""nbgrader's settings for this course. Settings only: the work is done in warpgrade.grading."""

from warpgrade.grading import configure

c = get_config()  # noqa: F821  # nbgrader provides it

c.CourseDirectory.course_id = "warpgrade"
configure(c)
