"""Matrix products, Gemm and Einstein's sums."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
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
@pytest.mark.parametrize("target", [oracle.FL[3], oracle.FL[8]], ids=["3", "8"])
def test_matmul_matches(a, b, target):
    oracle.matches(oracle.node("MatMul", oracle.f32(*a), oracle.f32(*b)), target, **SUMS)
    oracle.matches(oracle.node("MatMul", oracle.f32(*a), drawn(*b)), target, **SUMS)
    oracle.matches(oracle.node("MatMul", drawn(*a), oracle.f32(*b)), target, **SUMS)


@pytest.mark.parametrize(("a", "b"), SHAPES.values(), ids=SHAPES)
def test_matmul_of_halves_matches(a, b):
    oracle.matches(oracle.node("MatMul", oracle.f16(*a), oracle.f16(*b)), oracle.FL[8], atol=HALVES)


def test_matmul_takes_the_cheapest_form():
    single = oracle.node("MatMul", oracle.f32(4, 5), drawn(5, 3))
    assert oracle.emitted(single, oracle.FL[1]) == ["FULLY_CONNECTED"]
    rows = oracle.node("MatMul", oracle.f32(2, 4, 5), drawn(5, 3))
    assert oracle.emitted(rows, oracle.FL[1]) == ["RESHAPE", "FULLY_CONNECTED", "RESHAPE"]
    batch = oracle.node("MatMul", oracle.f32(2, 4, 5), oracle.f32(2, 5, 3))
    assert oracle.emitted(batch, oracle.FL[6]) == ["BATCH_MATMUL"]
    assert oracle.emitted(batch, oracle.FL[5]).count("FULLY_CONNECTED") == 2


SQUARES = {
    "constant weights": oracle.node("MatMul", oracle.f32(4, 4), drawn(4, 3)),
    "weights": oracle.node("MatMul", oracle.f32(4, 4), oracle.f32(4, 3)),
    "constant rows": oracle.node("MatMul", drawn(4, 4), oracle.f32(4, 3)),
    "of rank 3": oracle.node("MatMul", oracle.f32(2, 2, 4), drawn(4, 4)),
    "Gemm": oracle.node("Gemm", oracle.f32(4, 4), drawn(3, 4), drawn(3), transB=1),
    "recurrent": oracle.node(
        "RNN", oracle.f32(1, 4, 4), drawn(1, 3, 4), drawn(1, 3, 3), hidden_size=3
    ),
}


@pytest.mark.parametrize("case", SQUARES.values(), ids=SQUARES)
def test_rows_as_many_as_their_floats_are_longer_by_a_zero_at_level_1(case):
    """Android 8.1 computes the first row of such a product alone."""
    names = oracle.emitted(case, oracle.FL[1])
    assert names[names.index("FULLY_CONNECTED") - 1] == "CONCATENATION"
    oracle.matches(case, oracle.FL[1], **SUMS)
    profiled = replace(oracle.FL[1], profiled=True)
    for target in (profiled, oracle.FL[2]):
        assert "CONCATENATION" not in oracle.emitted(case, target)


def test_matmul_of_halves_names_its_level():
    for rows in (4, 5):  # square and not
        case = oracle.node("MatMul", oracle.f16(rows, 4), oracle.f16(4, 3))
        oracle.rejects(case, oracle.FL[1], Reason.LEVEL, "FULLY_CONNECTED of TENSOR_FLOAT16")


def test_matmul_levels():
    batch = oracle.node("MatMul", oracle.f32(2, 4, 5), oracle.f32(2, 5, 3))
    oracle.matches(batch, oracle.FL[2], **SUMS)
    oracle.rejects(batch, oracle.FL[1], Reason.LEVEL, "needs feature level")
    most = oracle.node("MatMul", oracle.f32(64, 2, 3), oracle.f32(64, 3, 2))
    oracle.accepts(most, oracle.FL[3])
    more = oracle.node("MatMul", oracle.f32(65, 2, 3), oracle.f32(65, 3, 2))
    oracle.accepts(more, oracle.FL[6])
    oracle.rejects(more, oracle.FL[5], Reason.LEVEL, "BATCH_MATMUL needs feature level 6")


def test_matmul_of_integers_matches():
    case = oracle.node("MatMul", oracle.i32(2, 4, 5), oracle.i32(5, 3))
    oracle.matches(case, oracle.FL[6])
    oracle.rejects(case, oracle.FL[5], Reason.LEVEL, "BATCH_MATMUL")


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
    target = oracle.FL[1] if "b" in constant and "transA" not in attributes else oracle.FL[2]
    oracle.matches(oracle.node("Gemm", oracle.f32(*a), second, third, **attributes), target, **SUMS)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_gemm_of_every_opset_matches(opset):
    oracle.matches(
        oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), drawn(3), opset=opset),
        oracle.FL[1],
        **SUMS,
    )


def test_gemm_without_c_matches():
    oracle.matches(oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3)), oracle.FL[1], **SUMS)
    oracle.matches(
        oracle.node("Gemm", oracle.f32(4, 5), oracle.f32(5, 3), alpha=0.5), oracle.FL[2], **SUMS
    )


def test_gemm_is_one_layer_where_constants_hold_the_factors():
    case = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), drawn(3), alpha=0.5, beta=2.0)
    assert oracle.emitted(case, oracle.FL[1]) == ["FULLY_CONNECTED"]
    computed = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), oracle.f32(4, 3), beta=2.0)
    assert oracle.emitted(computed, oracle.FL[1]) == ["FULLY_CONNECTED", "MUL", "ADD"]


def test_gemm_of_integers_is_refused():
    oracle.rejects(
        oracle.node("Gemm", oracle.i32(4, 5), oracle.i32(5, 3)), oracle.FL[8], Reason.DTYPE, "INT32"
    )


@pytest.mark.parametrize("c", [(1, 1, 1, 3), (2, 4, 3), (5, 1, 3)])
def test_gemm_with_a_larger_c_is_refused(c):
    """ONNX's inference takes the output's shape from a and b alone."""
    for third in (oracle.f32(*c), drawn(*c)):
        case = oracle.node("Gemm", oracle.f32(4, 5), drawn(5, 3), third)
        oracle.rejects(case, oracle.FL[8], Reason.SHAPE, "broadcast")


EINSUM_SUMS = 1e-5  # sums of at most 60 products of float32 numbers below 2, in another order
EINSUM_HALVES = 2e-2  # one rounding to float16 of a number below 20

ONE = {
    "transpose": ("ij->ji", (3, 4)),
    "transpose of four": ("abcd->dbac", (2, 3, 4, 5)),
    "as it is": ("ij->ij", (3, 4)),
    "rows": ("ij->i", (3, 4)),
    "columns": ("ij->j", (3, 4)),
    "all": ("ij->", (3, 4)),
    "inner, turned": ("abcd->db", (2, 3, 4, 5)),
    "implicit": ("ba", (3, 4)),
    "ellipsis": ("...ij->...ji", (2, 3, 4, 5)),
    "sum behind an ellipsis": ("...i->...", (2, 3, 4)),
    "ones": ("abc->cab", (1, 3, 1)),
    "rank 5": ("abcde->ecbad", (2, 3, 1, 2, 3)),
}
TWO = {
    "product": ("ij,jk->ik", (3, 4), (4, 5)),
    "implicit product": ("ij, jk", (3, 4), (4, 5)),
    "product, turned": ("ij,jk->ki", (3, 4), (4, 5)),
    "first transposed": ("ji,jk->ik", (4, 3), (4, 5)),
    "second transposed": ("ij,kj->ik", (3, 4), (5, 4)),
    "both transposed": ("ji,kj->ik", (4, 3), (5, 4)),
    "batches": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    "heads": ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    "heads apart": ("bihd,bjhd->bhij", (2, 4, 3, 5), (2, 6, 3, 5)),
    "values of heads": ("bhij,bjhd->bihd", (2, 3, 4, 6), (2, 6, 3, 5)),
    "relative positions": ("bhwc,hkc->bhwk", (2, 3, 4, 5), (3, 6, 5)),
    "dot": ("i,i->", (5,), (5,)),
    "dots": ("ij,ij->i", (3, 5), (3, 5)),
    "outer": ("i,j->ij", (3,), (4,)),
    "outer, turned": ("i,j->ji", (3,), (4,)),
    "times a scalar": ("ij,->ij", (3, 4), ()),
    "element by element": ("ij,ij->ij", (3, 4), (3, 4)),
    "element by element, turned": ("ij,ji->ij", (3, 4), (4, 3)),
    "columns scaled": ("ij,j->ij", (3, 4), (4,)),
    "two contracted": ("aij,ijb->ab", (2, 3, 4), (3, 4, 5)),
    "two contracted, apart": ("iaj,jbi->ab", (3, 2, 4), (4, 5, 3)),
    "summed before": ("ija,ab->ib", (2, 3, 4), (4, 5)),
    "ellipses": ("...ij,...jk->...ik", (2, 1, 3, 4), (1, 3, 4, 5)),
    "ellipsis and vector": ("...i,i->...", (2, 3, 4), (4,)),
    "broadcast ones": ("bij,bjk->bik", (2, 3, 4), (1, 4, 5)),
    "all of size 1": ("ij,jk->ik", (1, 1), (1, 1)),
}
THREE = {
    "chain": ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    "bilinear": ("bi,oij,bj->bo", (2, 3), (4, 3, 5), (2, 5)),
    "outer": ("i,j,k->kij", (2,), (3,), (4,)),
}


@pytest.mark.parametrize("name", [*ONE, *TWO, *THREE])
def test_matches(name):
    equation, *shapes = (ONE | TWO | THREE)[name]
    case = oracle.node("Einsum", *(oracle.f32(*s) for s in shapes), equation=equation)
    oracle.matches(case, oracle.FL[8], atol=EINSUM_SUMS)
    oracle.matches(case, oracle.FL[3], atol=EINSUM_SUMS)


def test_halves_and_constants_match():
    b = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    oracle.matches(
        oracle.node("Einsum", oracle.f32(3, 4), b, equation="ij,jk->ik"),
        oracle.FL[8],
        atol=EINSUM_SUMS,
    )
    halves = oracle.node("Einsum", oracle.f16(3, 4), oracle.f16(4, 5), equation="ij,jk->ik")
    wide = oracle.node("Einsum", oracle.f32(3, 4), oracle.f32(4, 5), equation="ij,jk->ik")
    drawn = {k: x.astype(np.float32) for k, x in halves.draw().items()}
    reference = [oracle.evaluated(wide.model, drawn)[0].astype(np.float16)]
    oracle.matches(halves, oracle.FL[8], atol=EINSUM_HALVES, reference=reference)


def test_products_are_the_operations_of_products():
    def by(equation, *shapes):
        return oracle.emitted(
            oracle.node("Einsum", *(oracle.f32(*s) for s in shapes), equation=equation),
            oracle.FL[6],
        )

    assert by("bij,bjk->bik", (2, 3, 4), (2, 4, 5)) == ["BATCH_MATMUL"]
    assert by("bij,bkj->bik", (2, 3, 4), (2, 5, 4)) == ["BATCH_MATMUL"]
    assert "FULLY_CONNECTED" in by("ij,kj->ik", (3, 4), (5, 4))
    assert by("ij->ji", (3, 4)) == ["TRANSPOSE"]
    assert "MUL" in by("i,j->ij", (3,), (4,))


def test_levels():
    total = oracle.node("Einsum", oracle.f32(3, 4), equation="ij->i")
    oracle.accepts(total, oracle.FL[3])
    oracle.rejects(total, oracle.FL[2], Reason.LEVEL, "REDUCE_SUM")
    oracle.accepts(
        oracle.node("Einsum", oracle.f32(3, 4), oracle.f32(5, 4), equation="ij,kj->ik"),
        oracle.FL[1],
    )


def test_diagonals_and_other_types_are_refused():
    oracle.rejects(
        oracle.node("Einsum", oracle.f32(3, 3), equation="ii->i"),
        oracle.FL[8],
        Reason.ATTRIBUTE,
        "diagonal",
    )
    double = oracle.node("Einsum", oracle.f64(3, 4), equation="ij->ji")
    oracle.rejects(double, oracle.FL[8], Reason.DTYPE, "DOUBLE")
