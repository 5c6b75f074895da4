"""What may come back from a call: number, kind, dtype, shape and strides by the declaration, before a suite sees it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from warpgrade.course import Argument, Exercise, Form, Return
from warpgrade.judge import contract
from warpgrade.judge.contract import check_returned
from warpgrade.judge.failure import Failure
from warpgrade.judge.verdict import Outcome
from warpgrade.wire.tensors import Handle, Other, ReturnedTensor

X = torch.zeros(3, 4)


def exercise(*returns: Return) -> Exercise:
    return Exercise(
        title="F", points=1.0, form=Form.FUNCTION, signature="f(x, n)", summary="", id="f",
        arguments=[Argument("x", "tensor", shape=["M", "N"]), Argument("n", "int")], returns=list(returns),
    )  # fmt: skip


def came(tensor: torch.Tensor, strides: tuple[int, ...] | None = None) -> ReturnedTensor:
    return ReturnedTensor(tensor, tuple(tensor.stride()) if strides is None else strides)


LIKE_X = Return(dtype="x", shape="x")


def broken(value: Any, *returns: Return) -> Failure:
    with pytest.raises(Failure) as caught:
        check_returned(exercise(*(returns or (LIKE_X,))), {"x": X, "n": 5}, value)
    assert caught.value.outcome is Outcome.WRONG
    assert caught.value.sentence.startswith("f returned ")
    return caught.value


def kept(value: Any, *returns: Return) -> Any:
    return check_returned(exercise(*returns), {"x": X, "n": 5}, value)


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "None (is a return missing?)"), (Other("generator"), "a generator"), (Other("list"), "a list"), (3, "a int"),
     (2.5, "a float"), (Handle(0), "a function"), ((came(X),), "a tuple"), ({"x": came(X)}, "a dict"),
     (came(X.double()), "float64"), (came(X.half()), "float16"), (came(X.flatten()), "wrong shape"), (came(X.t()), "wrong shape"),
     (came(torch.zeros(3, 5)), "wrong shape"), (came(torch.zeros(0)), "wrong shape"), (came(X, (1, 3)), "not contiguous"),
     (came(X, (0, 0)), "not contiguous"), (came(X, (8, 1)), "not contiguous")],
)  # fmt: skip
def test_what_breaks_the_contract_is_named(value: Any, words: str) -> None:
    assert words in broken(value).sentence


def test_sizes_stay_evidence() -> None:
    failure = broken(came(torch.zeros(3, 1025)))
    assert "1025" not in failure.sentence
    assert "1025" in failure.evidence["shape"]


def test_what_keeps_the_contract_is_handed_on() -> None:
    assert kept(came(X), LIKE_X) is X
    empty = torch.zeros(0, 4)
    assert check_returned(exercise(LIKE_X), {"x": empty, "n": 0}, came(empty, (7, 7))) is empty, "no stride matters"
    row = torch.zeros(1, 4)
    assert check_returned(exercise(LIKE_X), {"x": row, "n": 0}, came(row, (99, 1))) is row, (
        "of a single row no stride matters"
    )


def test_sizes_come_from_arguments_and_numbers() -> None:
    assert kept(came(torch.zeros(4, 3, 5, 2)), Return(dtype="float32", shape=["N", "M", "n", "2"])).shape == (
        4,
        3,
        5,
        2,
    )
    broken(came(torch.zeros(4, 3, 6, 2)), Return(dtype="float32", shape=["N", "M", "n", "2"]))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("int", 3, 3.0), ("int", -(2**63), True), ("int", 3, came(torch.tensor(3))), ("float", 2.5, True), ("bool", True, 1),
     ("bool", False, None), ("float", 2.5, "2.5")],
)  # fmt: skip
def test_numbers_have_their_own_type(kind: str, good: Any, bad: Any) -> None:
    assert kept(good, Return(kind=kind)) == good
    broken(bad, Return(kind=kind))


def test_an_int_may_stand_for_a_float() -> None:
    value = kept(3, Return(kind="float"))
    assert (value, type(value)) == (3.0, float)


def test_several_values_come_as_a_tuple_of_that_many() -> None:
    two = (LIKE_X, Return(kind="int"))
    assert kept((came(X), 3), *two) == (X, 3)
    assert "1 values" in broken((came(X),), *two).sentence
    assert "3 values" in broken((came(X), 3, 3), *two).sentence
    assert "a tensor" in broken(came(X), *two).sentence
    assert "as value 2" in broken((came(X), 2.5), *two).sentence


def test_a_function_without_declared_values_may_return_anything() -> None:
    assert check_returned(exercise(), {"x": X}, Other("generator")) is None


def test_a_returned_function_may_give_tensors_and_numbers_and_nothing_else() -> None:
    tensor = ReturnedTensor(torch.ones(2), (1,))
    assert torch.equal(contract.plain(exercise(), tensor), torch.ones(2))
    assert contract.plain(exercise(), (3, 2.5, True)) == (3, 2.5, True)
    for wrong in (Other("generator"), None, (1, Other("secret_1025"))):
        with pytest.raises(Failure) as caught:
            contract.plain(exercise(), wrong)
        assert caught.value.outcome is Outcome.WRONG
        assert "1025" not in caught.value.sentence
