"""Models as data: constants by content, sizes, arrays."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Operand

F32 = OperandCode.TENSOR_FLOAT32


def test_constants_are_equal_by_content():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert Data.of(a) == Data.of(a.copy())
    assert hash(Data.of(a)) == hash(Data.of(a.copy()))
    assert Data.of(a) != Data.of(a + 1)


def test_constants_are_in_the_order_of_c():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = Operand(F32, (3, 2), value=Data.of(a.T))
    assert np.array_equal(turned.array, a.T)


@pytest.mark.parametrize(
    ("operand", "known"),
    [
        (Operand(F32, (2, 3)), True),
        (Operand(F32, (2, 0)), False),
        (Operand(F32), False),
        (Operand(OperandCode.INT32), True),
    ],
)
def test_a_shape_is_known_with_all_its_sizes(operand: Operand, known: bool):
    assert operand.known == known


def test_a_computed_operand_has_no_array():
    with pytest.raises(ValueError, match="no constant value"):
        _ = Operand(F32, (2,)).array
