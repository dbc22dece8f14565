"""Arrays over buffers of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.ort._native import ffi
from ep_nnapi.ort.tensors import shape_of, view


def tensor(array: np.ndarray, dtype: int) -> tuple[object, list[object]]:
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
    made, _alive = tensor(array, DType.FLOAT)
    assert shape_of(made) == shape
    seen = view(made)
    np.testing.assert_array_equal(seen, array)
    assert seen.dtype == np.float32
    assert np.shares_memory(seen, array) or not array.size


def test_it_cannot_be_written() -> None:
    made, _alive = tensor(np.zeros(2, np.int64), DType.INT64)
    with pytest.raises(ValueError, match="read-only"):
        view(made)[0] = 1


def test_a_type_that_numpy_lacks_is_rejected() -> None:
    made, _alive = tensor(np.zeros(2, np.uint16), DType.BFLOAT16)
    with pytest.raises(Reject, match="BFLOAT16") as rejected:
        view(made)
    assert rejected.value.reason is Reason.DTYPE
