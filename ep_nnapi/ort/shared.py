"""Memory of ONNX Runtime's tensors that outlives them, without a copy.

A sequence refers to its tensors. So one that is made of an initializer keeps its memory after the
session that ONNX Runtime loaded it for has dropped it. That memory is ONNX Runtime's own: it copies
initializers that an application supplies for those in a model's external files. The files are
mapped, for this provider as for the CPU provider, so they must not be written in place meanwhile.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.graph.value import DType
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import api, check, stored

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData, Tensor

_SEQUENCE = 2  # Source: ONNXType.
_ARENA, _DEFAULT = 1, 0  # Source: OrtAllocatorType, OrtMemType.


def lasting(value: CData, tensor: Tensor) -> CData | None:
    """Returns the data of `tensor`, which is that of `value`, to be read for as long as it lives.

    None where ONNX Runtime copies what it makes a sequence of.
    """
    if not _shares():
        return None
    owner = _sequence(value)
    data: CData = ffi.gc(ffi.cast("char *", tensor.data), lambda _: api().ReleaseValue(owner))
    return data


def _sequence(value: CData) -> CData:
    given = ffi.new("OrtValue *[]", [value])
    return stored("OrtValue *", api().CreateValue, given, 1, _SEQUENCE)  # type: ignore[no-any-return]


@cache
def _shares() -> bool:
    """True if a sequence sees what is written to the memory of its tensor afterwards."""
    ort, given = api(), np.zeros(1, np.float32)
    memory = stored("OrtMemoryInfo *", ort.CreateCpuMemoryInfo, _ARENA, _DEFAULT)
    allocator = stored("OrtAllocator *", ort.GetAllocatorWithDefaultOptions)
    data = ffi.cast("void *", given.ctypes.data), given.nbytes, ffi.new("int64_t[]", [1]), 1
    make = ort.CreateTensorWithDataAsOrtValue
    tensor = stored("OrtValue *", make, memory, *data, DType.FLOAT)
    sequence = _sequence(tensor)
    given[0] = 1
    read = stored("OrtValue *", ort.GetValue, sequence, 0, allocator)
    found: Tensor = ffi.new("Tensor *")
    check(lib.read_tensor(read, found))
    seen = ffi.cast("float *", found.data)[0]
    for value in (read, sequence, tensor):
        ort.ReleaseValue(value)
    ort.ReleaseMemoryInfo(memory)
    return bool(seen == 1)
