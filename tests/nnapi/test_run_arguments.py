"""Arrays of a run that fit the model's inputs and outputs, and those that do not."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import checked, delivered, fits
from tests.nnapi.build import F32, I32, INT32, tensor

X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("dims", "shape", "expected"),
    [
        ((2, 3), (2, 3), True),
        ((2, 3), (2, 4), False),
        ((2, 3), (3, 2), False),
        ((2, 3), (2, 3, 1), False),
        ((2, 3), (6,), False),
        ((0, 3), (7, 3), True),  # 0: an unknown dimension
        ((0, 3), (7, 4), False),
        ((0, 0), (0, 5), True),
        ((), (4, 5, 6), True),  # unknown rank
        ((), (), True),
    ],
)
def test_shapes(dims: tuple[int, ...], shape: tuple[int, ...], expected: bool) -> None:
    assert fits(np.zeros(shape, np.float32), tensor(F32, *dims)) is expected


def test_a_scalar_takes_rank_0_only() -> None:
    assert fits(np.zeros((), np.int32), Operand(INT32))
    assert not fits(np.zeros(1, np.int32), Operand(INT32))


def test_outputs_are_filled_up_with_none() -> None:
    ends = ([tensor(F32, 2, 3)], [tensor(F32, 2, 3)] * 2)
    assert list(checked([X], (), *ends)) == [None, None]
    given = [None, X]
    assert checked([X], given, *ends) is given
    assert list(checked([None], (), *ends)) == [None, None]  # an optional input left out


def test_the_shape_of_an_output_is_not_checked() -> None:
    out = np.zeros((9, 9), np.float32)
    assert checked([X], [out], [tensor(F32, 2, 3)], [tensor(F32, 2, 3)])[0] is out


WRONG = {
    "too few inputs": ([], (), "0 inputs and 0 outputs are given for 1 and 1"),
    "too many inputs": ([X, X], (), "2 inputs and 0 outputs are given for 1 and 1"),
    "too many outputs": ([X], [X, X], "1 inputs and 2 outputs are given for 1 and 1"),
    "type": ([X.astype(np.int32)], (), "input 0: int32 is given for TENSOR_FLOAT32"),
    "shape": ([X.T.copy()], (), r"input 0: shape \(3, 2\) is given for \(2, 3\)"),
    "not contiguous": ([np.zeros((3, 2), np.float32).T], (), "input 0: .* not C-contiguous"),
    "output type": ([X], [X.astype(np.float16)], "output 0: float16 is given for TENSOR_FLOAT32"),
    "output not contiguous": ([X], [X[:, ::2]], "output 0: .* not C-contiguous"),
}


@pytest.mark.parametrize(("inputs", "outputs", "detail"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit(inputs: list, outputs: list, detail: str) -> None:
    with pytest.raises(RuntimeFailure, match=detail) as caught:
        checked(inputs, outputs, [tensor(F32, 2, 3)], [tensor(F32, 2, 3)])
    assert caught.value.code == "ANEURALNETWORKS_BAD_DATA"


def test_the_number_of_the_argument_is_named() -> None:
    operands = [tensor(F32, 2, 3), tensor(I32, 2, 3)]
    with pytest.raises(RuntimeFailure, match="input 1: float32 is given for TENSOR_INT32"):
        checked([X, X], (), operands, [])


def test_an_output_array_of_another_shape() -> None:
    with pytest.raises(RuntimeFailure, match=r"shape \(1, 2\), the output has \(2, 2\)") as failed:
        delivered(np.zeros((2, 2)), np.zeros((1, 2)))
    assert failed.value.code == "ANEURALNETWORKS_OUTPUT_INSUFFICIENT_SIZE"
