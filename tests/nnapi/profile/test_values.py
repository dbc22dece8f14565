"""Values of samples: in the domain of the operation, and at its edges where NNAPI defines them."""

import numpy as np
import pytest

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.profile.sample import Sample, use_of
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.profile.values import Fed, Values, fed, takes_extremes
from ep_nnapi.nnapi.spec import BY_NAME

F32, Q8S, I32 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    OperandCode.TENSOR_INT32,
)


def sample(name: str, code: OperandCode = F32, rank: int | None = None, size: int = 4) -> Sample:
    """The first sample whose first tensor has that type and rank."""
    for made in seeds_of(BY_NAME[name], size):
        first = next(o for _, o in made.tensors())
        if first.type is code and rank in (None, len(first.dimensions)) and use_of(made):
            return made
    raise LookupError(name)


def given(name: str, kind: Values = Values.ORDINARY, **which: object) -> Fed:
    base = sample(name, **which)
    return fed(use_of(base)[0], base, kind)


def test_they_are_the_same_each_time_and_differ_between_operations() -> None:
    first, again, other = given("EXP", rank=4), given("EXP", rank=4), given("TANH", rank=4)
    np.testing.assert_array_equal(first.inputs[0], again.inputs[0])
    assert (first.inputs[0] != other.inputs[0]).any()
    assert (first.inputs[0] == 0).any()


@pytest.mark.parametrize(
    ("name", "number", "low", "high"),
    [("LOG", 0, 0.1, 4), ("RSQRT", 0, 0.1, 4), ("DIV", 1, 0.5, 2), ("POW", 0, 0.1, 2)],
)
def test_domains(name: str, number: int, low: float, high: float) -> None:
    x = given(name, rank=4).inputs[number]
    assert x.min() >= low
    assert x.max() <= high


def test_weights_are_filled_and_indexes_stay() -> None:
    use = given("CONV_2D").use
    weights = {p.name: o for p, o in use.named_inputs if isinstance(o.value, Data)}
    assert all(np.ptp(weights[name].array) > 0 for name in ("filter", "bias"))
    assert weights["stride_width"].array == 1
    perm = next(o for p, o in given("TRANSPOSE", rank=3).use.named_inputs if p.name == "perm")
    assert perm.array.tolist() == [2, 1, 0]


def test_indexes_are_within_what_they_refer_to() -> None:
    lookups = given("EMBEDDING_LOOKUP", code=I32).inputs[0]
    assert 0 <= lookups.min() <= lookups.max() < 4
    batches = next(a for a in given("ROI_ALIGN").inputs if a.dtype == np.int32)
    assert (np.diff(batches) >= 0).all()
    boxes = given("ROI_ALIGN").inputs[1]
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert boxes.max() <= 4


def distinct(x: Array, axis: int) -> bool:
    return bool((np.diff(np.sort(x, axis=axis), axis=axis) != 0).all())


@pytest.mark.parametrize("code", [F32, Q8S])
@pytest.mark.parametrize("name", ["ARGMAX", "TOPK_V2"])
def test_no_two_elements_are_equal_where_that_would_matter(name: str, code: OperandCode) -> None:
    x = given(name, code=code, rank=4, size=18).inputs[0]
    assert all(distinct(x, axis) for axis in range(4))


def test_extremes() -> None:
    assert set(np.unique(given("ADD", Values.EXTREME, code=Q8S, rank=4).inputs[0])) == {-128, 127}
    x = given("RELU", Values.EXTREME, rank=4).inputs[0]
    assert {np.inf, -np.inf} <= set(x.reshape(-1).tolist())
    assert np.isfinite(x).any()
    few = given("CONV_2D", Values.EXTREME, code=Q8S).inputs[0]
    assert few.dtype == np.int8


@pytest.mark.parametrize(
    ("name", "code", "takes"),
    [
        ("RELU", F32, True),
        ("LESS", F32, True),
        ("EXP", F32, False),
        ("ADD", F32, False),
        ("ADD", Q8S, True),
        ("ADD", I32, False),
    ],
)
def test_infinities_only_where_they_are_defined(name: str, code: OperandCode, takes: bool) -> None:
    assert takes_extremes(use_of(sample(name, code))[0]) is takes
