"""Numpy arrays over ONNX Runtime's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.ort._native import ffi
from ep_nnapi.ort.api import dtype

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Tensor


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Returns the shape of `tensor`."""
    return tuple(ffi.unpack(tensor.dims, tensor.rank)) if tensor.rank else ()


def view(tensor: Tensor) -> Array:
    """Returns a read-only view of `tensor`; raises Reject(DTYPE) for a type that numpy lacks."""
    kind = dtype(tensor.dtype).numpy
    data = ffi.buffer(tensor.data, tensor.bytes) if tensor.bytes else b""
    array = np.ndarray(shape_of(tensor), kind, data)
    array.flags.writeable = False
    return array
