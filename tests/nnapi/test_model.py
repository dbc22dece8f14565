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


@pytest.mark.parametrize(
    ("code", "number"),
    [(OperandCode.INT32, -3), (OperandCode.FLOAT32, 0.5), (OperandCode.BOOL, True)],
)
def test_an_item_is_the_number_of_a_scalar(code: OperandCode, number: float):
    item = Operand(code, value=Data.of(np.array(number, code.numpy))).item
    assert (type(item), item) == (type(number), number)


def test_only_constants_of_one_element_have_an_item():
    assert Operand(F32, (1,), value=Data.of(np.ones(1, np.float32))).item == 1
    with pytest.raises(ValueError, match="size 1"):
        _ = Operand(F32, (2,), value=Data.of(np.ones(2, np.float32))).item
    with pytest.raises(ValueError, match="no constant value"):
        _ = Operand(F32, (1,)).item
