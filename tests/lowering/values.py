"""Values of the tests of calls."""

from ep_nnapi.graph.value import DType, Quantization, Value


def f32(name, *dims):
    return Value(name, DType.FLOAT, dims)


def u8(name, *dims, scale=0.1, zero_point=0):
    return Value(name, DType.UINT8, dims, Quantization((scale,), (zero_point,)))


X, Y, Z = f32("x", 1, 4), f32("y", 1, 4), f32("z", 1, 4)
IMAGE, MADE = f32("x", 1, 3, 8, 8), f32("y", 1, 2, 8, 8)
PADS = {f"padding_{side}": 1 for side in ("left", "right", "top", "bottom")}
STRIDES = {"stride_width": 1, "stride_height": 1}
