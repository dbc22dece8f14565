"""Matrix products of every rank, constant or not, at each level."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL5,
    FL6,
    FL8,
    accepts,
    emitted,
    f16,
    f32,
    i32,
    matches,
    node,
    rejects,
)

SUMS = {"atol": 5e-6, "rtol": 1e-5}  # sums of at most 12 float32 products, in another order
HALVES = 2e-2  # one rounding to float16 of a number below 32
RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.uniform(-2, 2, shape).astype(np.float32)


SHAPES = {
    "matrices": ((4, 5), (5, 3)),
    "vector, matrix": ((5,), (5, 3)),
    "matrix, vector": ((4, 5), (5,)),
    "vectors": ((5,), (5,)),
    "batch, matrix": ((2, 3, 4, 5), (5, 3)),
    "batch, vector": ((2, 4, 5), (5,)),
    "batch of 1": ((2, 4, 5), (1, 5, 3)),
    "batches": ((2, 4, 5), (2, 5, 3)),
    "batches of rank 4": ((2, 3, 4, 5), (2, 3, 5, 2)),
    "broadcast": ((2, 1, 4, 5), (3, 5, 2)),
    "matrix, batch": ((4, 5), (3, 5, 2)),
    "vector, batch": ((5,), (3, 5, 2)),
    "rank 5": ((2, 1, 3, 4, 5), (2, 2, 3, 5, 2)),
    "rank 5, matrix": ((2, 1, 3, 4, 5), (5, 2)),
}


@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("target", [FL3, FL8], ids=["3", "8"])
def test_matmul_matches(a, b, target):
    matches(node("MatMul", f32(*a), f32(*b)), target, **SUMS)
    matches(node("MatMul", f32(*a), drawn(*b)), target, **SUMS)
    matches(node("MatMul", drawn(*a), f32(*b)), target, **SUMS)


@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
def test_matmul_of_halves_matches(a, b):
    matches(node("MatMul", f16(*a), f16(*b)), FL8, atol=HALVES)


def test_matmul_takes_the_cheapest_form():
    single = node("MatMul", f32(4, 5), drawn(5, 3))
    assert emitted(single, FL1) == ["FULLY_CONNECTED"]
    rows = node("MatMul", f32(2, 4, 5), drawn(5, 3))
    assert emitted(rows, FL1) == ["RESHAPE", "FULLY_CONNECTED", "RESHAPE"]
    batch = node("MatMul", f32(2, 4, 5), f32(2, 5, 3))
    assert emitted(batch, FL6) == ["BATCH_MATMUL"]
    assert emitted(batch, FL5).count("FULLY_CONNECTED") == 2


def test_matmul_levels():
    batch = node("MatMul", f32(2, 4, 5), f32(2, 5, 3))
    matches(batch, FL2, **SUMS)
    rejects(batch, FL1, Reason.LEVEL, "needs feature level")
    most = node("MatMul", f32(64, 2, 3), f32(64, 3, 2))
    accepts(most, FL3)
    more = node("MatMul", f32(65, 2, 3), f32(65, 3, 2))
    accepts(more, FL6)
    rejects(more, FL5, Reason.LEVEL, "BATCH_MATMUL needs feature level 6")


def test_matmul_of_integers_matches():
    case = node("MatMul", i32(2, 4, 5), i32(5, 3))
    matches(case, FL6)
    rejects(case, FL5, Reason.LEVEL, "BATCH_MATMUL")


GEMMS = {
    "plain": ((4, 5), (5, 3), (3,), {}),
    "transposed": ((5, 4), (3, 5), (3,), {"transA": 1, "transB": 1}),
    "factors": ((4, 5), (5, 3), (3,), {"alpha": 0.5, "beta": 2.0}),
    "no factor for c": ((4, 5), (5, 3), (4, 3), {"beta": 0.0}),
    "one number": ((4, 5), (5, 3), (), {"beta": 0.5}),
    "one row": ((4, 5), (5, 3), (1, 3), {}),
    "one column": ((4, 5), (5, 3), (4, 1), {"alpha": 2.0}),
    "all": ((4, 5), (5, 3), (4, 3), {"alpha": 0.5, "beta": 2.0, "transB": 0}),
}


@pytest.mark.parametrize(("a", "b", "c", "attributes"), GEMMS.values(), ids=GEMMS)
@pytest.mark.parametrize("constant", ["b c", "b", "c", ""])
def test_gemm_matches(a, b, c, attributes, constant):
    second = drawn(*b) if "b" in constant else f32(*b)
    third = drawn(*c) if "c" in constant else f32(*c)
    target = FL1 if "b" in constant and "transA" not in attributes else FL2
    matches(node("Gemm", f32(*a), second, third, **attributes), target, **SUMS)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_gemm_of_every_opset_matches(opset):
    matches(node("Gemm", f32(4, 5), drawn(5, 3), drawn(3), opset=opset), FL1, **SUMS)


def test_gemm_without_c_matches():
    matches(node("Gemm", f32(4, 5), drawn(5, 3)), FL1, **SUMS)
    matches(node("Gemm", f32(4, 5), f32(5, 3), alpha=0.5), FL2, **SUMS)


def test_gemm_is_one_layer_where_constants_hold_the_factors():
    case = node("Gemm", f32(4, 5), drawn(5, 3), drawn(3), alpha=0.5, beta=2.0)
    assert emitted(case, FL1) == ["FULLY_CONNECTED"]
    computed = node("Gemm", f32(4, 5), drawn(5, 3), f32(4, 3), beta=2.0)
    assert emitted(computed, FL1) == ["FULLY_CONNECTED", "MUL", "ADD"]


def test_gemm_of_integers_is_refused():
    rejects(node("Gemm", i32(4, 5), i32(5, 3)), FL8, Reason.DTYPE, "INT32")


@pytest.mark.parametrize("c", [(1, 1, 1, 3), (2, 4, 3), (5, 1, 3)])
def test_gemm_with_a_larger_c_is_refused(c):
    """ONNX's inference takes the output's shape from a and b alone."""
    for third in (f32(*c), drawn(*c)):
        case = node("Gemm", f32(4, 5), drawn(5, 3), third)
        rejects(case, FL8, Reason.SHAPE, "broadcast")
