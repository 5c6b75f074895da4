import msgspec
import nbformat
import pytest

from warpgrade.course import Argument, Course, Exercise, Form, Return
from warpgrade.notebook.contract import contract_box

COURSE = Course.find()
DECLARED = [(name, id_) for name in COURSE.assignments for id_ in COURSE.assignment(name).exercises]


@pytest.mark.parametrize(("assignment", "id_"), DECLARED)
def test_the_notebook_shows_the_box_that_the_declaration_makes(assignment, id_):
    declaration = COURSE.assignment(assignment)
    notebook = nbformat.read(COURSE.source(assignment) / declaration.notebook, as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    box = contract_box(declaration.exercises[id_])
    assert sources.count(box) == 1, (
        f"before {id_}__solution the notebook needs a markdown cell `#### Contract of `{id_}``, which "
        "`python -m warpgrade.notebook.format` fills in"
    )


def exercise(**changes) -> Exercise:
    plain = Exercise(
        title="Twice",
        points=5,
        form=Form.FUNCTION,
        signature="twice(x, k)",
        summary="Doubles.",
        arguments=[
            Argument(name="x", kind="tensor", dtypes=["float32", "float16"], shape=["M", "N"], layout="any"),
            Argument(name="k", kind="int", note="above 0"),
        ],
        returns=[Return(dtype="x", shape="x")],
        promises=["NaN stays NaN."],
        id="twice",
    )
    return msgspec.structs.replace(plain, **changes)


def test_everything_declared_is_in_the_box():
    box = contract_box(exercise())
    assert "| `x` | input | float32 or float16 | [M, N] | any strides |" in box
    assert "| `k` | int, above 0 | | | |" in box
    assert "| returned | new tensor | that of `x` | that of `x` | contiguous |" in box
    assert "- NaN stays NaN." in box
    assert "5 points. " in box
    assert "Speed" not in box


def test_a_return_of_a_named_dtype_and_one_that_is_no_tensor():
    box = contract_box(exercise(returns=[Return(dtype="float32", shape=["M"]), Return(kind="int", note="the count")]))
    assert "| returned | new tensor | float32 | [M] | contiguous |" in box
    assert "| returned | int, the count | | | |" in box


def test_hints_stay_out_of_the_box():
    assert "secret idea" not in contract_box(exercise(hints=["secret idea"]))
