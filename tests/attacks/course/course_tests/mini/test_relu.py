"""Hidden tests. The mini course"""


def test_any_content(submission, inputs, reference, assert_identical):
    x = inputs.distinct(1025)
    x[-1] = 3.0
    assert_identical(submission.relu(x) + 0.0, reference.relu(x).float())
