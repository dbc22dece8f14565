"""Operations that move elements, against numpy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.cases import each
from tests.nnapi.host.oracle import (
    DATA,
    F16,
    F32,
    FLOATS,
    I32,
    Q8,
    Q8S,
    compare,
    integers,
    matches,
    run,
    store,
)

SEED = 20260806
NUMBERS = (*DATA, I32)


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).integers(-100, 100, shape).astype(np.float64)


def operand(numbers):
    """A list of numbers, or an operand that is left out."""
    return None if numbers is None else integers(*numbers)


PADDINGS = [(0, 0), (1, 2), (0, 3)]
MIRRORED = [(2, 1), (0, 0), (1, 2)]
PADS, MIRRORS = store(PADDINGS, I32), store(MIRRORED, I32)
SHAPES = [(24,), (4, -1), (-1, 2, 3), (1, 24, 1, 1)]
ORDERS = [((2, 3), None), ((2, 3, 4), (0, 2, 1)), ((2, 3, 4), (2, 0, 1))]
MOVES = [  # numpy's function, its argument, sizes of the input, other operands
    *((spec.RESHAPE, np.reshape, s, (2, 3, 4), {"shape": integers(*s)}) for s in SHAPES),
    *(
        (spec.SQUEEZE, np.squeeze, axes, (1, 2, 1, 1), {"axes": operand(axes)})
        for axes in (None, (0,), (-1, 2))
    ),
    *((spec.EXPAND_DIMS, np.expand_dims, a, (2, 3), {"axis": a}) for a in (0, 2, -1, -3)),
    *((spec.TRANSPOSE, np.transpose, p, shape, {"perm": operand(p)}) for shape, p in ORDERS),
    *((spec.REVERSE, np.flip, a, (2, 3, 4), {"axis": integers(a)}) for a in (0, 1, 2)),
    (spec.TILE, np.tile, (3, 1, 2), (2, 3, 4), {"multiples": integers(3, 1, 2)}),
    (spec.PAD, np.pad, PADDINGS, (2, 1, 3), {"paddings": PADS}),
    *(
        (row, partial(np.pad, mode=name), MIRRORED, (3, 1, 3), {"paddings": MIRRORS, "mode": mode})
        for row, mode, name in ((spec.MIRROR_PAD, 0, "reflect"), (spec.MIRROR_PAD, 1, "symmetric"))
    ),
]


@each(("row", "function", "argument", "shape", "operands"), MOVES)
def test_elements_are_moved(row, function, argument, shape, operands):
    matches(
        row,
        lambda x, *_: function(x, argument),
        types=tuple(c for c in NUMBERS if any(t.types["T"] is c for t in row.typings)),
        same_scale=True,
        input=drawn(*shape),
        **operands,
    )


@pytest.mark.parametrize("shape", [(23,), (5, -1), (-1, -1), (-2, -12)], ids=str)
def test_reshape_refuses_a_shape_of_other_size(shape):
    with pytest.raises(RuntimeFailure, match="OP_FAILED"):
        run(
            spec.RESHAPE,
            {"input": store(drawn(2, 3, 4), F32), "shape": integers(*shape)},
            Operand(F32),
        )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenation_matches(axis):
    """Quantized inputs have scales of their own."""
    parts = [drawn(2, 3, 2), 2 * drawn(2, 3, 2) + 7, drawn(2, 3, 2) / 3]
    matches(spec.CONCATENATION, lambda parts: np.concatenate(parts, axis), inputs=parts, axis=axis)


def test_pad_v2_matches():
    matches(
        spec.PAD_V2,
        lambda x, _: np.pad(x, PADDINGS, constant_values=0.5),
        types=FLOATS,
        same_scale=True,
        input=drawn(2, 1, 3),
        paddings=PADS,
        pad_value=0.5,
    )


@pytest.mark.parametrize("code", [Q8, Q8S], ids=lambda c: c.name)
def test_pad_v2_takes_a_stored_number(code):
    source = store(drawn(2, 2), code)
    given = {"input": source, "paddings": store([[1, 0], [0, 1]], I32), "pad_value": 9}
    output = replace(source.operand, dimensions=())
    (result,) = run(spec.PAD_V2, given, output)
    np.testing.assert_array_equal(result, np.pad(source.array, ((1, 0), (0, 1)), constant_values=9))


@pytest.mark.parametrize(("mode", "most"), [(0, 2), (1, 3)], ids=["reflect", "symmetric"])
def test_mirror_pad_stops_at_what_there_is_to_mirror(mode, most):
    given = {"input": store(drawn(3), F32), "mode": mode}
    run(spec.MIRROR_PAD, given | {"paddings": store([[most, 0]], I32)}, Operand(F32))
    with pytest.raises(RuntimeFailure, match=f"paddings {most + 1}, 0 of a size of 3"):
        run(spec.MIRROR_PAD, given | {"paddings": store([[most + 1, 0]], I32)}, Operand(F32))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pack_matches(axis):
    first = drawn(2, 3)
    matches(
        spec.PACK,
        lambda parts: np.stack(parts, axis),
        types=NUMBERS,
        inputs=[first, first[::-1].copy()],
        axis=axis,
    )


@pytest.mark.parametrize("code", NUMBERS, ids=lambda c: c.name)
@pytest.mark.parametrize("axis", [0, -1])
def test_split_matches(code, axis):
    source = store(drawn(6, 2, 3), code)
    output = replace(source.operand, dimensions=())
    results = run(
        spec.SPLIT, {"input": source, "axis": axis, "num_splits": 3}, output, output, output
    )
    for result, expected in zip(results, np.split(source.array, 3, axis), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_fill_and_rank_match():
    for code, value in ((F32, 0.5), (I32, -7)):
        (filled,) = run(spec.FILL, {"dims": integers(2, 0, 3), "value": value}, Operand(code))
        np.testing.assert_array_equal(filled, np.full((2, 0, 3), value))
    (rank,) = run(spec.RANK, {"input": store(drawn(2, 3, 4), F16)}, Operand(spec.INT32))
    assert rank.item() == 3
    assert rank.shape == ()


def test_quantize_rounds_half_away_from_zero():
    """Scale 2: 1 is half a quantum."""
    real = np.array([-9.0, -3, -1, -0.5, 0, 0.5, 1, 3, 300])
    for code, zero, expected in (
        (Q8, 2, [0, 0, 1, 2, 2, 2, 3, 4, 152]),
        (Q8S, -1, [-6, -3, -2, -1, -1, -1, 0, 1, 127]),
    ):
        output = Operand(code, (), 2.0, zero)
        (result,) = run(spec.QUANTIZE, {"input": store(real, F32)}, output)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("target", FLOATS, ids=lambda c: c.name)
@pytest.mark.parametrize("code", [Q8, Q8S], ids=lambda c: c.name)
def test_dequantize_matches(code, target):
    source = store(drawn(3, 5), code)
    (result,) = run(spec.DEQUANTIZE, {"input": source}, Operand(target))
    compare(result, Operand(target), source.real, 1e-6, code.name)


def test_cast_drops_fractions_and_saturates_bytes():
    real = store(np.array([-3.7, -0.2, 0.9, 254.9, 300]), F32)
    (ints,) = run(spec.CAST, {"input": real}, Operand(I32))
    np.testing.assert_array_equal(ints, [-3, 0, 0, 254, 300])
    (bytes_,) = run(spec.CAST, {"input": real}, Operand(Q8, (), 0.25, 7))
    np.testing.assert_array_equal(bytes_, [0, 0, 0, 254, 255])
    stored = store(np.array([1.0, 3]), Q8)
    (back,) = run(spec.CAST, {"input": stored}, Operand(F32))
    np.testing.assert_array_equal(back, stored.array)
