"""Operations on elements, along axes and of movement, at an image's size in EfficientNet-lite0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from bench.floors import (
    IMAGE,
    PIXELS,
    Q_OUT,
    Case,
    bytes_,
    copy,
    each,
    looked_up,
    reals,
    there_and_back,
)
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import BOOL8, F32, I32

UNARY: dict[OperationSpec, Callable[..., object] | None] = {
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
    table: tuple[tuple[OperationSpec, dict[str, object]], ...] = (
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
