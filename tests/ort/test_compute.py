"""Tensors cross between ONNX Runtime and a cluster without a copy and without a change."""

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.ort._native import ffi
from ep_nnapi.ort.reader import shape_of, view
from tests.onnx_graph import model_of, serialized
from tests.ort.conftest import Install, start
from tests.ort.models import abs_add


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_inputs_and_outputs_are_not_copied(install: Install):
    fake = install("Abs", "Add", together=True)
    session = start(abs_add())
    x = np.random.default_rng(0).random((2, 3), np.float32)
    y = session.run(None, {"x": x})[0]
    (runner,) = fake.runners
    assert address(runner.inputs[0]) == address(x)
    assert address(runner.outputs[0]) == address(y)


def test_bound_buffers_are_not_copied(install: Install):
    fake = install("Abs", "Add", together=True)
    session = start(abs_add())
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    value = onnxruntime.OrtValue.ortvalue_from_numpy(x)
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    (runner,) = fake.runners
    assert address(runner.inputs[0]) == value.data_ptr()
    assert address(runner.outputs[0]) == address(y)
    np.testing.assert_array_equal(y, 2 * x)


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1, 2, 1, 2, 1)], ids=str)
def test_numbers_pass(install: Install, dtype: type, shape: tuple[int, ...]):
    fake = install("Abs", together=True)
    x = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    made = model_of("y = Abs (x)", {"x": (dtype, shape)}, {"y": (dtype, shape)})
    y = start(made.SerializeToString()).run(None, {"x": x})[0]
    assert len(fake.runners) == 1
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(y, x)


def test_booleans_pass(install: Install):
    install("Not")
    session = start(serialized("(bool[3] x) => (bool[3] y) { y = Not (x) }"))
    y = session.run(None, {"x": np.array([True, False, True])})[0]
    np.testing.assert_array_equal(y, [False, True, False])


def test_dynamic_dimensions_take_the_shape_of_each_call(install: Install):
    fake = install("Abs", "Add", together=True)
    session = start(abs_add(("batch", None)))
    assert fake.graphs[0].inputs[0].dims == ("batch", None)
    for shape in [(1, 2), (3, 1), (0, 4), (5, 5), (1, 2)]:
        x = np.full(shape, -1, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.zeros(shape))


def test_constants_are_dropped_from_the_inputs(install: Install):
    fake = install("Add")
    w = np.array([10, 20, 30], np.float32)
    plus = serialized("(float[2,3] x) => (float[2,3] y) { y = Add (x, w) }", w=w)
    y = start(plus).run(None, {"x": np.zeros((2, 3), np.float32)})[0]
    np.testing.assert_array_equal(y, [w, w])
    assert fake.runners[0].names == (("x",), ("y",))


def test_overridable_initializers_stay_inputs(install: Install):
    fake = install("Add")
    w = np.ones((2, 3), np.float32)
    text = "(float[2,3] x, float[2,3] w) => (float[2,3] y) { y = Add (x, w) }"
    session = start(serialized(text, w=w))
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], w)
    np.testing.assert_array_equal(session.run(None, {"x": x, "w": 5 * w})[0], 5 * w)
    assert fake.runners[0].names[0] == ("x", "w")


def test_several_outputs_keep_their_order(install: Install):
    install("Abs", "Add", "Mul", together=True)
    text = """(float[2,3] x) => (float[2,3] c, float[2,3] a, float[2,3] b) {
        a = Abs (x) b = Add (a, x) c = Mul (b, x) }"""
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    c, a, b = start(serialized(text)).run(None, {"x": x})
    np.testing.assert_array_equal(a, np.abs(x))
    np.testing.assert_array_equal(b, a + x)
    np.testing.assert_array_equal(c, b * x)


# Arrays over buffers of ONNX Runtime


def tensor_over(array: np.ndarray, dtype: int) -> tuple[object, list[object]]:
    """A Tensor over the array, and what must live as long."""
    made = ffi.new("Tensor *")
    dims = ffi.new("int64_t[]", list(array.shape))
    data = ffi.from_buffer(array.reshape(-1).view(np.uint8)) if array.size else ffi.NULL
    made.dims, made.rank, made.dtype = dims, array.ndim, dtype
    made.data, made.bytes = data, array.nbytes
    return made, [dims, data, array]


@pytest.mark.parametrize("shape", [(2, 3), (1,), (), (0, 3)])
def test_the_view_has_the_buffer_s_numbers(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    made, _alive = tensor_over(array, DType.FLOAT)
    assert shape_of(made) == shape
    seen = view(made)
    np.testing.assert_array_equal(seen, array)
    assert seen.dtype == np.float32
    assert np.shares_memory(seen, array) or not array.size


def test_it_cannot_be_written() -> None:
    made, _alive = tensor_over(np.zeros(2, np.int64), DType.INT64)
    with pytest.raises(ValueError, match="read-only"):
        view(made)[0] = 1


def test_a_type_that_numpy_lacks_is_rejected() -> None:
    made, _alive = tensor_over(np.zeros(2, np.uint16), DType.BFLOAT16)
    with pytest.raises(Reject, match="BFLOAT16") as rejected:
        view(made)
    assert rejected.value.reason is Reason.DTYPE
