"""Axes, shapes and counts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto

from tests.random_graphs.limits.drawing import Draw


def _pad(d: Draw) -> None:
    d.feed(2, 5)
    d.give(d.integers(4, 0, 1, 3, -1, extreme=0.6))
    d.attributes["mode"] = d.random.choice(("constant", "reflect", "edge", "wrap"))
    d.opset = 19


def _slice(d: Draw) -> None:
    d.feed(4, 6)
    for usual in ((0, 1, 2), (3, 4, 100), (0, 1), (1, 2, -1)):
        d.give(d.integers(1, *usual, extreme=0.5))


def _tile(d: Draw) -> None:
    d.feed(2, 3)
    d.give([d.integer(1, 2, 3), d.random.choice((1, 2))])


def _expand(d: Draw) -> None:
    d.feed(1, 3)
    d.give([d.integer(1, 2, 3), d.random.choice((1, 3))])


def _eye_like(d: Draw) -> None:
    rows = d.random.choice((2, 7, 4000))
    d.feed(rows, d.random.choice((rows, 3, 4000)), dtype=np.int32)
    d.some(k=lambda: d.integer(0, 1, -1, extreme=0.6), dtype=lambda: TensorProto.FLOAT)


def _one_hot(d: Draw) -> None:
    d.feed(2, 3, dtype=np.int64)
    d.give(d.integer(4, 1, 9, extreme=0.6))
    d.give([0, 1], np.float32)
    d.some(axis=lambda: d.integer(0, 1, -1))


def _range(d: Draw) -> None:
    for usual in ((0, 1), (5, 9), (1, 2)):
        d.give(d.integer(*usual))


def _constant_of_shape(d: Draw) -> None:
    d.give([d.integer(1, 2, 3, extreme=0.6), d.random.choice((1, 3))])


def _split(d: Draw) -> None:
    d.feed(4, 6)
    first = d.integer(1, 2, 3)
    d.outputs = 2
    d.give([first, 4 - first if abs(first) < 2**40 else 1])
    d.some(axis=lambda: d.integer(0, 1, -2, extreme=0.2))


def _axes(d: Draw) -> None:
    if d.op_type == "Squeeze":
        d.feed(1, 3, 1)
    else:
        d.feed(3, 2)
    d.give(d.integers(1, 0, 2, extreme=0.6))


def _unsqueeze_many(d: Draw) -> None:
    """Ranks about 64 and past it."""
    d.op_type = "Unsqueeze"
    d.feed(3, 2)
    d.give(list(range(d.random.choice((2, 3, 6, 29, 30, 31, 61, 62, 63, 70, 200)))))


def _reshape(d: Draw) -> None:
    d.feed(2, 6)
    d.give(d.random.choice(([-1], [3, 4], [0, 6], [12] + [1] * 63, [d.integer(4, 6), -1])))
    d.some(allowzero=lambda: d.integer(0, 1, extreme=0.2))


def _flatten(d: Draw) -> None:
    d.feed(2, 3, 2)
    d.some(axis=lambda: d.integer(0, 1, 3, -1, extreme=0.6))


def _gather(d: Draw) -> None:
    d.feed(4, 6)
    d.give([d.integer(0, 1, 3, -1, extreme=0.3) for _ in range(3)])
    d.some(axis=lambda: d.integer(0, 1, -1, extreme=0.3))


def _top_k(d: Draw) -> None:
    d.feed(4, 6)
    d.give([d.integer(1, 2, 6, 7, extreme=0.5)])
    d.outputs = 2
    d.some(
        axis=lambda: d.integer(0, 1, -1, extreme=0.2),
        largest=lambda: d.integer(0, 1, extreme=0.2),
        sorted=lambda: 1,
    )


def _cum_sum(d: Draw) -> None:
    d.feed(3, d.random.choice((5, 3000)))
    d.give(d.integer(0, 1, -1, extreme=0.2), np.int64)
    d.some(
        exclusive=lambda: d.integer(0, 1, extreme=0.2), reverse=lambda: d.integer(0, 1, extreme=0.2)
    )


def _reduce(d: Draw) -> None:
    d.feed(2, 3, 4)
    d.some(
        axes=lambda: d.integers(d.random.choice((1, 2)), 0, 1, -1, extreme=0.4),
        keepdims=lambda: d.integer(0, 1, extreme=0.4),
    )


def _axis(d: Draw) -> None:
    d.feed(2, 3, 4)
    d.some(axis=lambda: d.integer(0, 1, -1, 2, extreme=0.5))
    if d.op_type.startswith("Arg"):
        d.some(
            keepdims=lambda: d.integer(0, 1, extreme=0.3),
            select_last_index=lambda: d.integer(0, extreme=0.3),
        )


def _trilu(d: Draw) -> None:
    size = d.random.choice((4, 2000))
    d.feed(size, size)
    d.give(d.integer(0, 1, -1, extreme=0.6))
    d.some(upper=lambda: d.integer(0, 1, extreme=0.3))


def _concat(d: Draw) -> None:
    d.feed(2, 3)
    d.feed(2, 3)
    d.attributes["axis"] = d.integer(0, 1, -1, extreme=0.4)


def _transpose(d: Draw) -> None:
    d.feed(2, 3)
    d.attributes["perm"] = [d.integer(0, 1, extreme=0.3), d.integer(0, 1, extreme=0.3)]


def _cast(d: Draw) -> None:
    d.feed(2, 3)
    d.attributes["to"] = d.integer(1, 6, 7, 9, 10, 11, extreme=0.3)


def _clip(d: Draw) -> None:
    d.feed(2, 3, dtype=np.int32)
    d.give(d.random.choice((-(2**31), 0, 2**31 - 1)), np.int32)
    d.give(d.random.choice((-(2**31), 0, 2**31 - 1)), np.int32)


def _layer_norm(d: Draw) -> None:
    d.feed(2, 3, 4)
    d.give(np.ones(4), np.float32)
    d.some(axis=lambda: d.integer(-1, 2, extreme=0.5), stash_type=lambda: d.integer(1, extreme=0.2))


def _gemm(d: Draw) -> None:
    d.feed(3, 3)
    d.give(np.eye(3), np.float32)
    d.some(transA=lambda: d.integer(0, 1, extreme=0.5), transB=lambda: d.integer(0, 1, extreme=0.5))


def _mod(d: Draw) -> None:
    d.feed(2, 3)
    d.give([3], np.float32)
    d.attributes["fmod"] = d.integer(1, extreme=0.4)


def _bit_shift(d: Draw) -> None:
    d.feed(2, 3, dtype=np.uint32)
    d.give([d.random.choice((0, 1, 31, 32, 2**31))], np.uint32)
    d.attributes["direction"] = d.random.choice(("LEFT", "RIGHT"))


def _shape(d: Draw) -> None:
    d.feed(2, 3, 4)
    d.some(start=lambda: d.integer(0, 1, -1, extreme=0.6), end=lambda: d.integer(1, 3, extreme=0.6))


_REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceProd", "ReduceL2", "ReduceLogSum", "ReduceMin")

RECIPES: Mapping[str, Callable[[Draw], None]] = {
    "Pad": _pad,
    "Slice": _slice,
    "Tile": _tile,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "OneHot": _one_hot,
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Split": _split,
    "Squeeze": _axes,
    "Unsqueeze": _axes,
    "high rank": _unsqueeze_many,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Gather": _gather,
    "TopK": _top_k,
    "CumSum": _cum_sum,
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(("ArgMax", "ArgMin", "Softmax", "LogSoftmax", "Hardmax"), _axis),
    "Trilu": _trilu,
    "Concat": _concat,
    "Transpose": _transpose,
    "Cast": _cast,
    "Clip": _clip,
    "LayerNormalization": _layer_norm,
    "Gemm": _gemm,
    "Mod": _mod,
    "BitShift": _bit_shift,
    "Shape": _shape,
}
