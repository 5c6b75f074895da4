"""Real feedback, made by nbgrader with this course's configuration."""


def test_hidden_tests_are_not_in_feedback_and_the_report_is(classroom):
    nb = classroom.answered(relu="BAD")
    nb.cells[2].source += "\n# BEGIN HIDDEN TESTS, says the student"
    classroom.submit("alice", nb)
    classroom.autograde()
    classroom.feedback()
    page = classroom.page("alice")
    assert "grade(" not in page
    assert "END HIDDEN" not in page
    assert "says the student" in page
    assert "test_secret: wrong" in page
    assert "It is not so." in page
    assert "1.5 of 4 points" in page
    assert "Speed counts when all correctness tests pass." in page


def test_feedback_of_a_broken_notebook_says_what_to_do(classroom):
    classroom.submit("alice", "{")
    classroom.autograde()
    classroom.feedback()
    assert "Save it from Jupyter" in classroom.page("alice")


def test_feedback_can_be_fetched_by_the_key_that_came_with_the_submission(classroom):
    folder = classroom.submit("alice", classroom.answered())
    (folder / "submission_secret.txt").write_text("key")
    classroom.autograde()
    classroom.feedback()
    assert (classroom.root / "feedback" / "alice" / "hw" / "submission_secret.txt").read_text() == "key"
