"""Matrix products of every rank, constant or not, at each level."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests import oracle

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
@pytest.mark.parametrize("target", [oracle.FL3, oracle.FL8], ids=["3", "8"])
def test_matmul_matches(a, b, target):
    oracle.matches(oracle.node("MatMul", oracle.f32(*a), oracle.f32(*b)), target, **SUMS)
    oracle.matches(oracle.node("MatMul", oracle.f32(*a), drawn(*b)), target, **SUMS)
    oracle.matches(oracle.node("MatMul", drawn(*a), oracle.f32(*b)), target, **SUMS)


@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
def test_matmul_of_halves_matches(a, b):
    oracle.matches(oracle.node("MatMul", oracle.f16(*a), oracle.f16(*b)), oracle.FL8, atol=HALVES)


def test_matmul_takes_the_cheapest_form():
    single = oracle.node("MatMul", oracle.f32(4, 5), drawn(5, 3))
    assert oracle.emitted(single, oracle.FL1) == ["FULLY_CONNECTED"]
    rows = oracle.node("MatMul", oracle.f32(2, 4, 5), drawn(5, 3))
    assert oracle.emitted(rows, oracle.FL1) == ["RESHAPE", "FULLY_CONNECTED", "RESHAPE"]
    batch = oracle.node("MatMul", oracle.f32(2, 4, 5), oracle.f32(2, 5, 3))
    assert oracle.emitted(batch, oracle.FL6) == ["BATCH_MATMUL"]
    assert oracle.emitted(batch, oracle.FL5).count("FULLY_CONNECTED") == 2


def test_matmul_levels():
    batch = oracle.node("MatMul", oracle.f32(2, 4, 5), oracle.f32(2, 5, 3))
    oracle.matches(batch, oracle.FL2, **SUMS)
    oracle.rejects(batch, oracle.FL1, Reason.LEVEL, "needs feature level")
    most = oracle.node("MatMul", oracle.f32(64, 2, 3), oracle.f32(64, 3, 2))
    oracle.accepts(most, oracle.FL3)
    more = oracle.node("MatMul", oracle.f32(65, 2, 3), oracle.f32(65, 3, 2))
    oracle.accepts(more, oracle.FL6)
    oracle.rejects(more, oracle.FL5, Reason.LEVEL, "BATCH_MATMUL needs feature level 6")


def test_matmul_of_integers_matches():
    case = oracle.node("MatMul", oracle.i32(2, 4, 5), oracle.i32(5, 3))
    oracle.matches(case, oracle.FL6)
    oracle.rejects(case, oracle.FL5, Reason.LEVEL, "BATCH_MATMUL")


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
    second = drawn(*b) if "b" in constant else oracle.f32(*b)
    third = drawn(*c) if "c" in constant else oracle.f32(*c)
    target = oracle.FL1 if "b" in constant and "transA" not in attributes else oracle.FL2
    oracle.matches(oracle.node("Gemm", oracle.f32(*a), second, third, **attributes), target, **SUMS)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_gemm_of_every_opset_matches(opset):
    oracle.matches(
        oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), drawn(3), opset=opset),
        oracle.FL1,
        **SUMS,
    )


def test_gemm_without_c_matches():
    oracle.matches(oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3)), oracle.FL1, **SUMS)
    oracle.matches(
        oracle.node("Gemm", oracle.f32(4, 5), oracle.f32(5, 3), alpha=0.5), oracle.FL2, **SUMS
    )


def test_gemm_is_one_layer_where_constants_hold_the_factors():
    case = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), drawn(3), alpha=0.5, beta=2.0)
    assert oracle.emitted(case, oracle.FL1) == ["FULLY_CONNECTED"]
    computed = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), oracle.f32(4, 3), beta=2.0)
    assert oracle.emitted(computed, oracle.FL1) == ["FULLY_CONNECTED", "MUL", "ADD"]


def test_gemm_of_integers_is_refused():
    oracle.rejects(
        oracle.node("Gemm", oracle.i32(4, 5), oracle.i32(5, 3)), oracle.FL8, Reason.DTYPE, "INT32"
    )


@pytest.mark.parametrize("c", [(1, 1, 1, 3), (2, 4, 3), (5, 1, 3)])
def test_gemm_with_a_larger_c_is_refused(c):
    """ONNX's inference takes the output's shape from a and b alone."""
    for third in (oracle.f32(*c), drawn(*c)):
        case = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), third)
        oracle.rejects(case, oracle.FL8, Reason.SHAPE, "broadcast")
