"""Models as data: constants by content, sizes, arrays."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.spec import ABS, F32, FLOOR, TANH


def test_constants_are_equal_by_content():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert Data.of(a) == Data.of(a.copy())
    assert hash(Data.of(a)) == hash(Data.of(a.copy()))
    assert Data.of(a) != Data.of(a + 1)


def test_constants_are_in_the_order_of_c():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = Operand(F32, (3, 2), value=Data.of(a.T))
    assert np.array_equal(turned.array, a.T)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 1000])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, np.bool_])
def test_elements_in_another_order_of_memory_are_equal_constants(size: int, dtype: type):
    turned = np.random.default_rng(size).integers(0, 99, (2, size)).astype(dtype).T
    stored, plain = Data(turned), Data.of(turned)
    assert (stored == plain, hash(stored)) == (True, hash(plain))
    assert np.array_equal(stored.bytes, plain.bytes)
    other = turned.copy(order="K")
    assert Data(turned) == Data(other)
    other[-1, -1] = not other[-1, -1]
    assert Data(turned) != Data(other)


def test_elements_are_compared_bit_by_bit():
    nan = np.array([[np.nan, 0.0]], np.float32).T
    assert Data(nan) == Data(nan.copy()) != Data(np.copysign(nan, -1))


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


def test_data_that_is_made_later_is_made_once_and_equal_to_itself_alone() -> None:
    made = []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(6, dtype=np.float32).reshape(2, 3)

    data, other = (Data(make, later=24) for _ in range(2))
    assert (data.size, hash(data) != hash(other), data != other) == (24, True, True)
    assert data in {data}
    operand = Operand(F32, (2, 3), value=data)
    assert made == []
    assert operand.array.tolist() == operand.elements.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (made, data == other) == ([1], False)


def test_signatures_are_taken_over_from_a_model_with_fewer_operations(monkeypatch):
    operands = tuple(Operand(F32, (2,)) for _ in range(4))
    tanh, floor = (Operation(row, (n,), (n + 1,)) for n, row in enumerate((TANH, FLOOR), 1))
    short = Model(operands, (tanh, floor), (1,), (3,))
    known = [short.match(n, 8) for n in range(2)]
    longer = Model(operands, (Operation(ABS, (0,), (1,)), tanh, floor), (0,), (3,))
    longer.with_matches(short, before=1)
    monkeypatch.delattr(Operation, "match")
    assert [longer.match(n, 8) for n in (1, 2)] == known
