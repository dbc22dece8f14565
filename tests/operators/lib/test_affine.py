"""Gemm as one fully connected layer where that is possible, against its formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.graph.value import Value
from ep_nnapi.operators.lib.affine import affine
from tests.operators.lib.emitting import Emitted, constant, emitted, floats, node, ran, value

A, B = floats(4, 3), floats(3, 2)[::-1].copy()
C = {
    "none": None,
    "scalar": floats(1),
    "row": floats(2),
    "row of rank 2": floats(1, 2),
    "column": floats(4, 1),
    "matrix": floats(4, 2),
}


def lowered(inputs: dict[str, Value], **attributes: object) -> tuple[Emitted, Value]:
    y = value("y", np.zeros((4, 2), np.float32))
    n = node(list(inputs.values()), [y], **attributes)
    read = [v for v in inputs.values() if v.constant is None]
    return emitted(affine, n, y, inputs=read), y


def gemm(feeds: dict[str, np.ndarray], constants: str, **attributes: object):
    """The result, and the operations; `constants` names the inputs that are constant."""
    inputs = {
        name: constant(array, name=name) if name in constants else value(name, array)
        for name, array in feeds.items()
    }
    made, y = lowered(inputs, **attributes)
    given = {name: a for name, a in feeds.items() if name not in constants}
    return ran(made, y, given, 8), made.names


@pytest.mark.parametrize("constants", ["", "b", "c", "bc"])
@pytest.mark.parametrize("c", C.values(), ids=C)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.5, 1), (1, 2), (0.5, -2), (2, 0)])
def test_matches(alpha: float, beta: float, c: np.ndarray | None, constants: str) -> None:
    feeds = {"a": A, "b": B} | ({} if c is None else {"c": c})
    exact = alpha * (A.astype(np.float64) @ B) + (0 if c is None else beta * c.astype(np.float64))
    found, _ = gemm(feeds, constants, alpha=alpha, beta=beta)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


@pytest.mark.parametrize("constants", ["", "bc"])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_transposed_matrices_match(trans_a: int, trans_b: int, constants: str) -> None:
    feeds = {"a": A.T.copy() if trans_a else A, "b": B.T.copy() if trans_b else B, "c": C["row"]}
    found, _ = gemm(feeds, constants, transA=trans_a, transB=trans_b)
    np.testing.assert_allclose(found, A.astype(np.float64) @ B + C["row"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("c", "constants", "factors", "operations"),
    [
        ("row", "bc", {"alpha": 0.5, "beta": 2}, ["FULLY_CONNECTED"]),  # both in the constants
        ("scalar", "bc", {}, ["FULLY_CONNECTED"]),
        ("row", "b", {}, ["FULLY_CONNECTED"]),
        ("row", "b", {"beta": 2}, ["FULLY_CONNECTED", "MUL", "ADD"]),  # a bias is not scaled
        ("column", "bc", {}, ["FULLY_CONNECTED", "ADD"]),
        ("none", "", {"alpha": 0.5}, ["FULLY_CONNECTED", "MUL"]),
    ],
)
def test_factors_and_the_sum_fold_where_they_can(c, constants, factors, operations) -> None:
    feeds = {"a": A, "b": B} | ({} if C[c] is None else {"c": C[c]})
    assert gemm(feeds, constants, **factors)[1] == operations
