"""Sums of products and pools at the sizes of MobileNetV2, EfficientNet and a keyword spotter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from bench.floors import Q_OUT, SAME, Case, bytes_, copy, product, reals, repeated, strides
from ep_nnapi.nnapi import spec


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
        sizes = ((1, size, size, channels), (out, taps, taps, channels), out)
        window = {**SAME, **strides(step)}
        yield from _in_both_types(Case(name, spec.CONV_2D, window, floor), sizes)
    for size, channels, taps, step in (
        (112, 32, 3, 1),
        (112, 96, 3, 2),
        (14, 384, 3, 1),
        (28, 240, 5, 1),
    ):
        name = f"DEPTHWISE_CONV_2D {size}x{size}x{channels} {taps}x{taps} / {step}"
        a, b = reals((size // step) ** 2 * channels), reals((size // step) ** 2 * channels)
        floor = repeated(np.multiply, a, b, taps * taps)
        sizes = ((1, size, size, channels), (1, taps, taps, channels), channels)
        window = {**SAME, **strides(step), "depth_multiplier": 1}
        yield from _in_both_types(Case(name, spec.DEPTHWISE_CONV_2D, window, floor), sizes)
    yield _grouped()
    yield _transposed()


Sizes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
"""Of an image, a filter and a bias."""


def _in_both_types(case: Case, sizes: Sizes) -> Iterator[Case]:
    """A case that lacks its tensors, in float32 and in bytes."""
    image, taps, units = sizes
    real = {"input": reals(*image), "filter": reals(*taps), "bias": reals(units)}
    yield replace(case, operands={**real, **case.operands})
    bias = np.zeros(units, np.int32)
    stored = {"input": bytes_(*image), "filter": bytes_(*taps), "bias": bias}
    name = f"{case.name} quant8"
    yield replace(case, name=name, operands={**stored, **case.operands}, outputs=Q_OUT)


def _grouped() -> Case:
    return Case(
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


def _transposed() -> Case:
    return Case(
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


def recurrences() -> Iterator[Case]:
    """The LSTM of a keyword spotter: 49 frames of 40 features, 128 units."""
    steps, features, units = 49, 40, 128
    gates = ("input", "forget", "cell", "output")
    weights = {f"input_to_{g}_weights": reals(units, features) for g in gates}
    recurrent = {f"recurrent_to_{g}_weights": reals(units, units) for g in gates}
    biases = {"cell_bias": reals(units)}
    biases |= {f"{g}_gate_bias": reals(units) for g in ("input", "forget", "output")}
    states = {f"{s}_state_in": np.zeros((1, units), np.float32) for s in ("output", "cell")}
    ends = {"activation": 4, "cell_clip": 0.0, "projection_clip": 0.0, "time_major": False}
    given = {"input": reals(1, steps, features), **weights, **recurrent, **biases, **states, **ends}
    step = product(1, units, 4 * units)
    yield Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM 49x40, 128",
        spec.UNIDIRECTIONAL_SEQUENCE_LSTM,
        given,
        lambda: [step() for _ in range(steps)],
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
