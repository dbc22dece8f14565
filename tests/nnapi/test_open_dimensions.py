"""Models with sizes in NNAPI's own form: open dimensions, and inputs for what depends on them."""

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.open_dimensions import with_open_dimensions
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import F32
from tests.nnapi.build import one, scalar


def reshaping(rows: int, columns: int, *shape: int) -> Model:
    """x [rows, columns] in another shape."""
    numbers = Data.of_sizes(shape, np.dtype(np.int32))
    sizes = Operand(OperandCode.TENSOR_INT32, (len(shape),), value=numbers)
    return one(spec.RESHAPE, [Operand(F32, (rows, columns)), sizes], [Operand(F32, shape)])


def run(model: Model, *inputs: np.ndarray) -> np.ndarray:
    runtime = HostRuntime()
    (device,) = runtime.devices()
    assert all(runtime.supported(model, device))
    (found,) = runtime.compile(model, device).run(inputs)
    return found


def test_a_shape_with_one_size_leaves_it_to_reshape():
    rows = Trace().size("rows", 2)
    model, inputs = with_open_dimensions(reshaping(rows, 6, rows * 2, 3))
    assert not inputs
    assert [o.dimensions for o in model.operands] == [(0, 6), (2,), (0, 3)]
    for count in (2, 5):
        x = np.arange(count * 6, dtype=np.float32).reshape(count, 6)
        np.testing.assert_array_equal(run(model, x), x.reshape(-1, 3))


def test_a_shape_with_two_sizes_is_an_input_of_numbers():
    trace = Trace()
    rows, columns = trace.size("rows", 2), trace.size("columns", 4)
    model, inputs = with_open_dimensions(reshaping(rows, columns, columns, rows))
    assert model.inputs == (0, 1)
    for r, c in ((2, 4), (3, 1)):
        (shape,) = (i.bind({"rows": r, "columns": c}).array for i in inputs)
        assert shape.dtype == np.int32
        x = np.arange(r * c, dtype=np.float32).reshape(r, c)
        np.testing.assert_array_equal(run(model, x, shape), x.reshape(c, r))


def test_a_scalar_is_an_input_too_and_numbers_stay():
    size = Trace().size("size", 8)
    wide = Operand(OperandCode.INT32, value=Data.of_sizes([size], np.dtype(np.int32)))
    given = Operand(F32, (1, 4, 4, 1)), wide, 3
    resize = one(spec.RESIZE_BILINEAR, given, [Operand(F32, (1, 3, size, 1))])
    model, (added,) = with_open_dimensions(resize)
    assert model.inputs == (0, 1)
    assert model.operands[2] == scalar(OperandCode.INT32, 3)
    x = np.ones((1, 4, 4, 1), np.float32)
    assert run(model, x, added.bind({"size": 5}).array).shape == (1, 3, 5, 1)
