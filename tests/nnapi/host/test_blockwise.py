"""Elementwise kernels by table and in blocks, compared with the same call made at once."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.concurrent_runs import Run
from ep_nnapi.nnapi.host.kernel import elementwise, pointwise
from ep_nnapi.nnapi.host.kernel_call import BlockwiseCall, KernelCall, LookupTable, row_width
from ep_nnapi.nnapi.spec import Q8
from tests.nnapi.host.named import named


@pytest.mark.parametrize(
    ("shape", "inputs", "width"),
    [
        ((2, 3, 4), [(2, 3, 4), (2, 3, 4)], 1),
        ((2, 3, 4), [(2, 3, 4), (1,)], 1),
        ((2, 3, 4), [(2, 3, 4), (1, 1, 4)], 4),
        ((2, 3, 4), [(2, 3, 4), (3, 4)], 12),
        ((2, 3, 4), [(3, 4), (4,)], None),
        ((2, 3, 4), [(2, 3, 4), (3, 1)], None),
        ((2, 3), [(2, 1), (1, 3)], None),
    ],
)
def test_rows_that_inputs_fill(shape, inputs, width):
    assert row_width(shape, inputs) == width


def total(input1: Array, input2: Array, activation: int, out: Array) -> None:
    np.add(input1, input2, out=out)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((3, 1 << 15), (3, 1 << 15)),
        ((5, 20000), (20000,)),
        ((7, 3), (1,)),
        ((4, 5), (4, 1)),  # no rows: computed at once
    ],
)
def test_blocks_give_what_one_call_gives(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    shapes = {"input1": first, "input2": second}
    op, index = named(spec.ADD, Q8, shapes, first, {"activation": 0})
    values = {index[n]: rng.integers(0, 256, s).astype(np.uint8) for n, s in shapes.items()}
    constants = {index["activation"]: np.array(0, np.int32)}
    call = KernelCall(elementwise(spec.ADD, total, Q8), op, constants)
    outs = [np.empty(first, np.uint8) for _ in range(2)]
    blocks = BlockwiseCall(call, call.types[0])
    (got,), (want,) = (
        each({**constants, **values}, [out], Run())
        for each, out in zip((blocks, call), outs, strict=True)
    )
    assert got is outs[0]
    np.testing.assert_array_equal(got, want)


def square(input: Array, out: Array) -> None:
    np.square(input, out=out)


def test_a_table_has_the_result_of_every_number() -> None:
    op, index = named(spec.ABS, Q8, {"input": (256,)}, (256,), {})
    call = KernelCall(pointwise(spec.ABS, square, Q8), op, {})
    lookup = LookupTable(call, index["input"], op.types["input"], op.types["output"], {})
    every = {index["input"]: np.arange(256, dtype=np.uint8)}
    (want,) = call(every, [np.empty(256, np.uint8)], Run())
    assert len(np.unique(want)) > 10
    out = np.empty(256, np.uint8)
    assert lookup(every, [out], Run())[0] is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(lookup(every, [None], Run())[0], want)
