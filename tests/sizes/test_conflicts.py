"""Declared output shapes, compared with ONNX's shape inference."""

from __future__ import annotations

import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Dim, DType, Value
from ep_nnapi.sizes.conflicts import shape_conflict, unconfirmed_shape


def matmul(y: tuple[Dim, ...] | None, inner: int = 3, **kind: str) -> GraphNode:
    a, b = Value("a", DType.FLOAT, (2, 3)), Value("b", DType.FLOAT, (inner, 4))
    kind = {"op_type": "MatMul", "domain": "", **kind}
    return GraphNode(0, "m", since=13, inputs=(a, b), outputs=(Value("y", DType.FLOAT, y),), **kind)


@pytest.mark.parametrize("declared", [(2, 4), (2, "n"), (None, None), None])
def test_consistent_or_unknown_shapes_have_no_conflict(declared: tuple[Dim, ...] | None) -> None:
    assert shape_conflict(matmul(declared)) == ""


@pytest.mark.parametrize("declared", [(2, 5), (2, 4, 1), (8,)])
def test_another_declared_shape_is_named(declared: tuple[Dim, ...]) -> None:
    said = shape_conflict(matmul(declared))
    assert said == f"y is declared as {list(declared)}, inferred as [2, 4]"


def test_inconsistent_inputs_give_the_reason_of_shape_inference() -> None:
    said = shape_conflict(matmul((2, 4), inner=5))
    assert said == "Incompatible dimensions for matrix multiplication"


def test_operators_without_shape_inference_have_no_conflict() -> None:
    assert shape_conflict(matmul((7, 7), op_type="Nowhere", domain="x")) == ""


def test_sizes_that_inference_finds_are_confirmed() -> None:
    assert unconfirmed_shape(matmul((2, 4))) == ""


def test_sizes_that_only_a_declaration_gives_are_named() -> None:
    said = unconfirmed_shape(matmul((7, 7), op_type="Nowhere", domain="x"))
    assert said == "y is only declared as [7, 7]"
