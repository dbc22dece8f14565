"""Operations at the sizes of MobileNetV2, EfficientNet-lite0 and an LSTM keyword spotter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.call import Row
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8
from ep_nnapi.value import Array

Floor = Callable[[], object]
_RANDOM = np.random.default_rng(20260808)


@dataclass(frozen=True, slots=True)
class Case:
    """An operation with its operands by name: arrays are tensors, the first one is the input."""

    name: str
    row: Row
    operands: Mapping[str, object]
    floor: Floor
    outputs: tuple[Operand, ...] = (Operand(F32),)


def reals(*shape: int) -> Array:
    """Numbers between 0.1 and 1, which every function takes."""
    return _RANDOM.uniform(0.1, 1, shape).astype(np.float32)


def bytes_(*shape: int) -> Array:
    """Numbers of TENSOR_QUANT8_ASYMM."""
    return _RANDOM.integers(0, 256, shape).astype(np.uint8)


def product(m: int, k: int, n: int) -> Floor:
    """The floor of m * k * n multiplications."""
    a, b, out = reals(m, k), reals(k, n), np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def each(function: Callable[..., object], size: int) -> Floor:
    """The floor of a function of that many elements."""
    a, out = reals(size), np.empty(size, np.float32)
    return lambda: function(a, out=out)


def copy(size: int, item: int = 4) -> Floor:
    """The floor of moving that many elements."""
    a, out = np.zeros(size * item, np.uint8), np.empty(size * item, np.uint8)
    return lambda: np.copyto(out, a)


def looked_up(size: int) -> Floor:
    """The floor of a function of that many bytes."""
    table, a, out = bytes_(256), bytes_(size), np.empty(size, np.uint8)
    return lambda: np.take(table, a, out=out, mode="clip")


def there_and_back(size: int) -> Floor:
    """The floor of computing with that many bytes: to float32 and back, in the cache."""
    a, real = bytes_(1 << 15), np.empty(1 << 15, np.float32)

    def floor() -> None:
        for _ in range(0, size, a.size):
            np.copyto(real, a)
            np.copyto(a, real, casting="unsafe")

    return floor


SAME = {"padding": 1}
Q_OUT = (Operand(Q8, (), 0.05, 128),)
IMAGE = (1, 56, 56, 144)
PIXELS = 56 * 56 * 144


def strides(step: int) -> dict[str, object]:
    """Strides of a window, and no activation."""
    return {"stride_width": step, "stride_height": step, "activation": 0}


def convolutions() -> Iterator[Case]:
    """CONV_2D, DEPTHWISE_CONV_2D and their relatives."""
    for size, channels, out, taps, step in (
        (224, 3, 32, 3, 2),
        (112, 16, 96, 1, 1),
        (56, 144, 24, 1, 1),
        (14, 96, 576, 1, 1),
        (7, 320, 1280, 1, 1),
        (28, 64, 64, 3, 1),
    ):
        name = f"CONV_2D {size}x{size}x{channels}->{out} {taps}x{taps} / {step}"
        floor = product((size // step) ** 2, taps * taps * channels, out)
        for quantized in (False, True):
            make = bytes_ if quantized else reals
            tensors = {
                "input": make(1, size, size, channels),
                "filter": make(out, taps, taps, channels),
                "bias": np.zeros(out, np.int32) if quantized else reals(out),
            }
            given = {**tensors, **SAME, **strides(step)}
            yield _case(name, spec.CONV_2D, given, floor, quantized)
    for size, channels, taps, step in (
        (112, 32, 3, 1),
        (112, 96, 3, 2),
        (14, 384, 3, 1),
        (28, 240, 5, 1),
    ):
        name = f"DEPTHWISE_CONV_2D {size}x{size}x{channels} {taps}x{taps} / {step}"
        a, b = reals((size // step) ** 2 * channels), reals((size // step) ** 2 * channels)
        floor = _repeated(np.multiply, a, b, taps * taps)
        for quantized in (False, True):
            make = bytes_ if quantized else reals
            tensors = {
                "input": make(1, size, size, channels),
                "filter": make(1, taps, taps, channels),
                "bias": np.zeros(channels, np.int32) if quantized else reals(channels),
            }
            given = {**tensors, **SAME, **strides(step), "depth_multiplier": 1}
            yield _case(name, spec.DEPTHWISE_CONV_2D, given, floor, quantized)
    yield Case(
        "GROUPED_CONV_2D 28x28x64 3x3, 4 groups",
        spec.GROUPED_CONV_2D,
        {
            "input": reals(1, 28, 28, 64),
            "filter": reals(64, 3, 3, 16),
            "bias": reals(64),
            **SAME,
            **strides(1),
            "num_groups": 4,
            "layout": False,
        },
        product(784, 144, 64),
    )
    yield Case(
        "TRANSPOSE_CONV_2D 28x28x32->16 2x2 / 2",
        spec.TRANSPOSE_CONV_2D,
        {
            "input": reals(1, 28, 28, 32),
            "filter": reals(16, 2, 2, 32),
            "bias": reals(16),
            **{f"padding_{side}": 0 for side in ("left", "right", "top", "bottom")},
            **strides(2),
            "layout": False,
        },
        product(784, 32, 64),
    )


def _case(name: str, row: Row, given: Mapping[str, object], floor: Floor, quantized: bool) -> Case:
    if quantized:
        return Case(f"{name} quant8", row, given, floor, Q_OUT)
    return Case(name, row, given, floor)


def _repeated(ufunc: np.ufunc, a: Array, b: Array, times: int) -> Floor:
    out = np.empty_like(a)

    def floor() -> None:
        for _ in range(times):
            ufunc(a, b, out=out)

    return floor


def products() -> Iterator[Case]:
    """FULLY_CONNECTED and BATCH_MATMUL."""
    for rows, depth, units in ((1, 1280, 1000), (1, 128, 12), (49, 40, 512)):
        yield Case(
            f"FULLY_CONNECTED {rows}x{depth}->{units}",
            spec.FULLY_CONNECTED,
            {
                "input": reals(rows, depth),
                "weights": reals(units, depth),
                "bias": reals(units),
                "activation": 0,
            },
            product(rows, depth, units),
        )
    a = reals(8, 64, 64)
    yield Case(
        "BATCH_MATMUL 8x64x64x64",
        spec.BATCH_MATMUL,
        {"input1": a, "input2": reals(8, 64, 64), "adj_x": False, "adj_y": False},
        lambda: np.matmul(a, a),
    )


def pools() -> Iterator[Case]:
    """Pools of a stem and of a whole image."""
    for row in (spec.MAX_POOL_2D, spec.AVERAGE_POOL_2D, spec.L2_POOL_2D):
        for size, channels, taps, step in ((112, 64, 3, 2), (7, 1280, 7, 7)):
            given = {"filter_width": taps, "filter_height": taps, **strides(step)}
            scheme = {"padding": 1 if taps == 3 else 2}
            yield Case(
                f"{row} {size}x{size}x{channels} {taps}x{taps} / {step}",
                row,
                {"input": reals(1, size, size, channels), **scheme, **given},
                copy(size * size * channels),
            )


UNARY: dict[Row, Callable[..., object] | None] = {
    spec.ABS: None,
    spec.EXP: np.exp,
    spec.FLOOR: None,
    spec.HARD_SWISH: None,
    spec.LOG: np.log,
    spec.LOGISTIC: np.exp,
    spec.NEG: None,
    spec.RELU: None,
    spec.RELU1: None,
    spec.RELU6: None,
    spec.RSQRT: np.sqrt,
    spec.SIN: np.sin,
    spec.SQRT: np.sqrt,
    spec.TANH: np.tanh,
}
BINARY = {spec.ADD: True, spec.SUB: True, spec.MUL: True, spec.DIV: True}
PAIRS = (spec.MAXIMUM, spec.MINIMUM, spec.EQUAL, spec.LESS)


def elements() -> Iterator[Case]:
    """Functions of elements and of pairs of them."""
    for row, function in UNARY.items():
        floor = copy(PIXELS) if function is None else each(function, PIXELS)
        yield Case(f"{row} 56x56x144", row, {"input": reals(*IMAGE)}, floor)
    for row in (spec.RELU, spec.LOGISTIC, spec.TANH):
        given = {"input": bytes_(*IMAGE)}
        yield Case(f"{row} 56x56x144 quant8", row, given, looked_up(PIXELS), Q_OUT)
    for row in (*BINARY, *PAIRS):
        extra = {"activation": 0} if row in BINARY else {}
        out = (Operand(BOOL8),) if row in (spec.EQUAL, spec.LESS) else (Operand(F32),)
        for other in (IMAGE, (144,)):
            pair = {"input1": reals(*IMAGE), "input2": reals(*other), **extra}
            shape = "x".join(map(str, other))
            yield Case(f"{row} 56x56x144, {shape}", row, pair, copy(PIXELS), out)
    terms = {"input1": bytes_(*IMAGE), "input2": bytes_(*IMAGE), "activation": 0}
    yield Case("ADD 56x56x144 quant8", spec.ADD, terms, there_and_back(PIXELS), Q_OUT)
    given = {"input": reals(*IMAGE), "alpha": reals(144)}
    yield Case("PRELU 56x56x144", spec.PRELU, given, copy(PIXELS))


def ints(*numbers: int) -> Array:
    """A vector of TENSOR_INT32."""
    return np.array(numbers, np.int32)


def rows() -> Iterator[Case]:
    """Reductions and normalizations."""
    for row in (spec.MEAN, spec.REDUCE_SUM, spec.REDUCE_MAX):
        keep: dict[str, object] = {"keep_dims": 1 if row is spec.MEAN else True}
        given = {"input": reals(*IMAGE), "axes": ints(1, 2), **keep}
        yield Case(f"{row} 56x56x144 over the image", row, given, copy(PIXELS))
    given = {"input": reals(1, 1000), "beta": 1.0}
    yield Case("SOFTMAX 1000", spec.SOFTMAX, given, each(np.exp, 1000))
    given = {"input": reals(64, 1000), "beta": 1.0}
    yield Case("SOFTMAX 64x1000", spec.SOFTMAX, given, each(np.exp, 64000))
    given = {"input": reals(64, 1000), "beta": 1.0, "axis": 1}
    yield Case("LOG_SOFTMAX 64x1000", spec.LOG_SOFTMAX, given, each(np.exp, 64000))
    yield Case(
        "L2_NORMALIZATION 56x56x144", spec.L2_NORMALIZATION, {"input": reals(*IMAGE)}, copy(PIXELS)
    )
    given = {"input": reals(*IMAGE), "radius": 2, "bias": 1.0, "alpha": 1.0, "beta": 0.5}
    floor = each(lambda a, out: np.power(a, np.float32(-0.5), out=out), PIXELS)
    yield Case(
        "LOCAL_RESPONSE_NORMALIZATION 56x56x144", spec.LOCAL_RESPONSE_NORMALIZATION, given, floor
    )
    given = {"input": reals(*IMAGE), "gamma": 1.0, "beta": 0.0, "epsilon": 1e-5, "layout": False}
    yield Case("INSTANCE_NORMALIZATION 56x56x144", spec.INSTANCE_NORMALIZATION, given, copy(PIXELS))
    given = {"input": reals(64, 1000), "axis": 1}
    yield Case("ARGMAX 64x1000", spec.ARGMAX, given, copy(64000), (Operand(I32),))
    given = {"input": reals(1, 1000), "k": 5}
    numbers = reals(1000)
    floor = partial(np.partition, numbers, 995)
    yield Case("TOPK_V2 1000, 5", spec.TOPK_V2, given, floor, (Operand(F32), Operand(I32)))


def moves() -> Iterator[Case]:
    """Operations that move elements."""
    pads = ints(0, 0, 0, 1, 0, 1, 0, 0).reshape(4, 2)
    image = {"input": reals(*IMAGE)}
    table: tuple[tuple[Row, dict[str, object]], ...] = (
        (spec.RESHAPE, {"shape": ints(56, 56, 144)}),
        (spec.TRANSPOSE, {"perm": ints(0, 3, 1, 2)}),
        (spec.PAD, {"paddings": pads}),
        (spec.MIRROR_PAD, {"paddings": pads, "mode": 0}),
        (spec.SLICE, {"begin": ints(0, 1, 1, 0), "size": ints(1, 54, 54, -1)}),
        (spec.TILE, {"multiples": ints(1, 1, 1, 1)}),
        (spec.GATHER, {"axis": 3, "indices": ints(*range(0, 144, 2))}),
        (spec.REVERSE, {"axis": ints(1)}),
        (spec.DEPTH_TO_SPACE, {"block_size": 2}),
        (spec.SPACE_TO_DEPTH, {"block_size": 2}),
        (spec.CHANNEL_SHUFFLE, {"num_groups": 4, "axis": 3}),
        (spec.RESIZE_BILINEAR, {"output_width": 112, "output_height": 112}),
        (
            spec.RESIZE_NEAREST_NEIGHBOR,
            {"output_width": 112, "output_height": 112, "layout": False},
        ),
    )
    for row, given in table:
        larger = 4 if "output_width" in given else 1
        yield Case(f"{row} 56x56x144", row, {**image, **given}, copy(PIXELS * larger))
    yield Case("QUANTIZE 56x56x144", spec.QUANTIZE, image, copy(PIXELS), Q_OUT)
    yield Case("DEQUANTIZE 56x56x144", spec.DEQUANTIZE, {"input": bytes_(*IMAGE)}, copy(PIXELS))


def families() -> Iterator[Case]:
    """Every case."""
    for family in (convolutions, products, pools, elements, rows, moves):
        yield from family()
