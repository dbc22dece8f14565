"""Every operation that sums, with long sums, against float64."""

import zlib

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.draws import Draw
from tests.nnapi.host.long_sums import SUMS
from tests.nnapi.host.oracle import F32, run

RELATIVE = 1e-6
"""Of the greatest result: some eight roundings to float32."""

BY_TRAITS = frozenset(
    row for row in spec.OPERATIONS if row.traits.elementwise or row.traits.selects
)
"""A result comes from a few numbers at one place, or is one of the inputs."""
CHOOSING = frozenset(
    {
        *(spec.ROI_POOLING, spec.REDUCE_ALL, spec.REDUCE_ANY, spec.ARGMAX, spec.ARGMIN),
        *(spec.AXIS_ALIGNED_BBOX_TRANSFORM, spec.BOX_WITH_NMS_LIMIT),
        *(spec.DETECTION_POSTPROCESSING, spec.GENERATE_PROPOSALS),
    }
)
"""A result is one of the inputs, where that is, or a corner of a box."""
MOVING = frozenset(
    {*(spec.FILL, spec.RANK, spec.EMBEDDING_LOOKUP, spec.HASHTABLE_LOOKUP), *(spec.IF, spec.WHILE)}
)
INTEGERS = frozenset({spec.QUANTIZED_LSTM, spec.QUANTIZED_16BIT_LSTM})
"""Sums of integers, which are exact."""
DRAWING = frozenset({spec.RANDOM_MULTINOMIAL, spec.LSH_PROJECTION})
"""What comes out is a class or a bit; the sums that decide it are in float64."""

SIZES = [
    pytest.param(10**4, id="10_000"),
    pytest.param(10**6, id="1_000_000", marks=pytest.mark.long),
]


def test_every_operation_has_a_case_or_no_sum():
    """Each of the 106 stands in one place."""
    places = [*SUMS, *BY_TRAITS, *CHOOSING, *MOVING, *INTEGERS, *DRAWING]
    assert sorted(map(str, places)) == sorted(map(str, spec.OPERATIONS))


@pytest.mark.parametrize("mean", [0.0, 1000.0], ids=["around 0", "around 1000"])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("row", SUMS, ids=str)
def test_a_long_sum_is_as_exact_as_float32_allows(row, count, mean):
    """An ulp of each result, which is twice the best, or `RELATIVE`."""
    draw = Draw(count, mean, seed=zlib.crc32(row.name.encode()))
    for operands, expected in SUMS[row](draw, row):
        results = run(row, operands, *[Operand(F32)] * len(expected))
        for n, (result, exact) in enumerate(zip(results, expected, strict=True)):
            assert result.shape == exact.shape
            error = np.abs(result - exact)
            greatest = np.abs(exact).max()
            ulp = np.spacing(np.abs(exact).astype(np.float32))
            allowed = np.maximum(ulp, RELATIVE * greatest)
            worst = (error / np.maximum(allowed, np.finfo(np.float64).tiny)).max()
            scalars = {k: v for k, v in operands.items() if isinstance(v, int | float)}
            what = f"output {n} of {row} with {scalars}, seed {draw.seed}"
            assert worst <= 1, f"{what}: {error.max() / greatest:.2g} of the greatest result"
