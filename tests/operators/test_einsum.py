"""Einstein's sums."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests import oracle

SUMS = 1e-5  # sums of at most 60 products of float32 numbers below 2, in another order
HALVES = 2e-2  # one rounding to float16 of a number below 20

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
    oracle.matches(case, oracle.FL8, atol=SUMS)
    oracle.matches(case, oracle.FL3, atol=SUMS)


def test_halves_and_constants_match():
    b = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    oracle.matches(
        oracle.node("Einsum", oracle.f32(3, 4), b, equation="ij,jk->ik"), oracle.FL8, atol=SUMS
    )
    halves = oracle.node("Einsum", oracle.f16(3, 4), oracle.f16(4, 5), equation="ij,jk->ik")
    wide = oracle.node("Einsum", oracle.f32(3, 4), oracle.f32(4, 5), equation="ij,jk->ik")
    drawn = {k: x.astype(np.float32) for k, x in halves.draw().items()}
    reference = [oracle.evaluated(wide.model, drawn)[0].astype(np.float16)]
    oracle.matches(halves, oracle.FL8, atol=HALVES, reference=reference)


def test_products_are_the_operations_of_products():
    def by(equation, *shapes):
        return oracle.emitted(
            oracle.node("Einsum", *(oracle.f32(*s) for s in shapes), equation=equation), oracle.FL6
        )

    assert by("bij,bjk->bik", (2, 3, 4), (2, 4, 5)) == ["BATCH_MATMUL"]
    assert by("bij,bkj->bik", (2, 3, 4), (2, 5, 4)) == ["BATCH_MATMUL"]
    assert "FULLY_CONNECTED" in by("ij,kj->ik", (3, 4), (5, 4))
    assert by("ij->ji", (3, 4)) == ["TRANSPOSE"]
    assert "MUL" in by("i,j->ij", (3,), (4,))


def test_levels():
    total = oracle.node("Einsum", oracle.f32(3, 4), equation="ij->i")
    oracle.accepts(total, oracle.FL3)
    oracle.rejects(total, oracle.FL2, Reason.LEVEL, "REDUCE_SUM")
    oracle.accepts(
        oracle.node("Einsum", oracle.f32(3, 4), oracle.f32(5, 4), equation="ij,kj->ik"), oracle.FL1
    )


def test_diagonals_and_other_types_are_refused():
    oracle.rejects(
        oracle.node("Einsum", oracle.f32(3, 3), equation="ii->i"),
        oracle.FL8,
        Reason.ATTRIBUTE,
        "diagonal",
    )
    double = oracle.node("Einsum", oracle.f64(3, 4), equation="ij->ji")
    oracle.rejects(double, oracle.FL8, Reason.DTYPE, "DOUBLE")
