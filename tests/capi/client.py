"""A client of libneuralnetworks.so through ctypes: names without the prefix, codes returned."""

import ctypes as c
import re
from collections.abc import Callable, Sequence

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS, Function, Parameter

NO_ERROR, BAD_STATE = ResultCode.NO_ERROR, ResultCode.BAD_STATE
BAD_DATA, OP_FAILED = ResultCode.BAD_DATA, ResultCode.OP_FAILED
SCALARS = {
    "int": c.c_int,
    "int32_t": c.c_int32,
    "uint16_t": c.c_uint16,
    "uint32_t": c.c_uint32,
    "uint64_t": c.c_uint64,
    "int64_t": c.c_int64,
    "size_t": c.c_size_t,
    "float": c.c_float,
    "bool": c.c_bool,
    "OperationType": c.c_int32,
}


class OperandType(c.Structure):
    _fields_ = [
        ("type", c.c_int32),
        ("dimensionCount", c.c_uint32),
        ("dimensions", c.POINTER(c.c_uint32)),
        ("scale", c.c_float),
        ("zeroPoint", c.c_int32),
    ]


class ChannelParams(c.Structure):
    _fields_ = [
        ("channelDim", c.c_uint32),
        ("scaleCount", c.c_uint32),
        ("scales", c.POINTER(c.c_float)),
    ]


class Library:
    """The library's functions as attributes: `nn.Model_create(...)`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = c.CDLL(path)
        for function in FUNCTIONS:
            setattr(self, function.python_name, self._bound(function))

    def _bound(self, function: Function) -> Callable[..., int]:
        found = getattr(self._library, function.c_name)
        found.restype = SCALARS.get(function.returns)
        found.argtypes = [SCALARS.get(p.type, c.c_void_p) for p in function.parameters]
        return found


def is_pointer(parameter: Parameter) -> bool:
    return parameter.type.endswith("*")


def is_handle(parameter: Parameter) -> bool:
    """True if it is an object of the API, not memory of the client."""
    return parameter.adapter_type == "uintptr_t"


def kind(parameter: Parameter) -> str:
    """Kind of a handle: "Model"."""
    return re.sub(r"const |\*", "", parameter.type)


def u32s(values: Sequence[int]) -> c.Array:
    return (c.c_uint32 * max(1, len(values)))(*values)


def listed(inputs: Sequence[int], outputs: Sequence[int]) -> tuple[object, ...]:
    """Two lists of operands as arguments, each after its length."""
    return len(inputs), u32s(inputs), len(outputs), u32s(outputs)


def operand_type(
    code: int = OperandCode.TENSOR_FLOAT32,
    dimensions: Sequence[int] = (2,),
    scale: float = 0.0,
    zero_point: int = 0,
) -> OperandType:
    array = u32s(dimensions) if dimensions else None
    pointer = c.cast(array, c.POINTER(c.c_uint32))
    made = OperandType(code, len(dimensions), pointer, scale, zero_point)
    made.keep = array
    return made


def scalar(code: int = OperandCode.INT32) -> OperandType:
    return operand_type(code, ())


def channel_params(dim: int, scales: Sequence[float]) -> ChannelParams:
    array = (c.c_float * max(1, len(scales)))(*scales)
    made = ChannelParams(dim, len(scales), c.cast(array, c.POINTER(c.c_float)))
    made.keep = array
    return made


def ref(thing: object) -> object:
    """The address of a structure or number; None stays null."""
    return None if thing is None else c.byref(thing)


def pointer(array: np.ndarray) -> int:
    return array.ctypes.data
