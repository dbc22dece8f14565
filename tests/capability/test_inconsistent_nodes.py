"""Nodes whose shapes or attributes contradict each other: rejected with the culprit.

ONNX Runtime loads many of them: its shape inference does not compare every pair of sizes, and keeps
declared output shapes that it does not infer. Symbolic dimensions become such nodes with the sizes
that they are tried with.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from onnx import defs

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import NO_ATTRIBUTES, Attribute, GraphNode
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.target import Target

FL8 = Target(8)
Shape = tuple[int, ...]
Given = Shape | np.ndarray | None


class Inconsistent(NamedTuple):
    """A node by its inputs (shapes, or constants), its output's shape, and its rejection."""

    op_type: str
    inputs: Sequence[Given]
    output: Shape
    reason: Reason
    detail: str
    attributes: Mapping[str, Attribute] = NO_ATTRIBUTES
    domain: str = ""


def constant(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def value(name: str, given: Given) -> Value | None:
    if isinstance(given, np.ndarray):
        known = Constant.of(given)
        return Value(name, known.dtype, known.shape, constant=known)
    return None if given is None else Value(name, DType.FLOAT, given)


def made(
    op_type: str,
    inputs: Sequence[Given],
    output: Shape,
    attributes: Mapping[str, Attribute],
    domain: str = "",
) -> GraphNode:
    since = 1 if domain else defs.get_schema(op_type, 21, "").since_version
    values = tuple(value(f"x{i}", given) for i, given in enumerate(inputs))
    out = Value("y", DType.FLOAT, output)
    return GraphNode(0, "n", op_type, domain, since, values, (out,), attributes)


MICROSOFT = "com.microsoft"
SHAPE, ATTRIBUTE, RANK = Reason.SHAPE, Reason.ATTRIBUTE, Reason.RANK
GRU_X, GRU_W, GRU_R = (5, 2, 4), constant(1, 9, 4), constant(1, 9, 3)
CASES = [
    Inconsistent("MatMul", [(96, 96, 2, 3), (1, 2, 3, 4)], (96, 96, 2, 4), SHAPE, "do not broadc"),
    Inconsistent("MatMul", [(2, 3), (4, 5)], (2, 5), SHAPE, "inner sizes of x0 and x1 differ"),
    Inconsistent("MatMul", [(2, 3), (3, 5)], (2, 6), SHAPE, "y is declared as [2, 6]"),
    Inconsistent(
        "Max", [(2, 7), (64,), (2, 7)], (2, 7), SHAPE, "[2, 7] and [64] and [2, 7] do not broadcast"
    ),
    Inconsistent("Max", [(1, 1), (1,)], (1,), SHAPE, "y is declared as [1]; the inputs"),
    Inconsistent("Mean", [(3, 1), (1, 2)], (3, 1), SHAPE, "y is declared as [3, 1]"),
    Inconsistent(
        "BiasGelu", [(1, 1, 64), (3,)], (1, 1, 64), SHAPE, "x1 has shape [3]", domain=MICROSOFT
    ),
    Inconsistent(
        "BatchNormalization",
        [(1, 4, 3, 3), constant(4), constant(4), (64,), constant(4)],
        (1, 4, 3, 3),
        SHAPE,
        "x3 has shape [64] for x0 of shape [1, 4, 3, 3]",
    ),
    Inconsistent(
        "Gemm", [(2, 3), (4, 5)], (2, 5), SHAPE, "inner sizes of x0 and x1 differ: 3 and 4"
    ),
    Inconsistent(
        "Gemm", [(2, 3), (5, 4)], (3, 5), SHAPE, "differ: 2 and 4", {"transA": 1, "transB": 1}
    ),
    Inconsistent("Gemm", [(2, 3), (3, 5), (2, 4)], (2, 5), SHAPE, ""),
    Inconsistent("Gemm", [(224, 3), (3, 4)], (7, 4), SHAPE, "y is declared as [7, 4]"),
    Inconsistent("Gemm", [(1, 2, 3), (3, 4)], (2, 4), RANK, "x0 has rank 3"),
    Inconsistent(
        "Einsum",
        [(2, 3), (5, 4)],
        (2, 4),
        SHAPE,
        "x1 has size 5 along j, another term 3",
        {"equation": "ij,jk->ik"},
    ),
    Inconsistent(
        "FastGelu", [(2, 3, 1), (64,)], (2, 3, 1), SHAPE, "x1 has shape [64]", domain=MICROSOFT
    ),
    Inconsistent("InstanceNormalization", [(3,), (3,), (3,)], (3,), RANK, "x0 has rank 1"),
    Inconsistent(
        "InstanceNormalization", [(1, 3, 4), (3,), (1,)], (1, 3, 4), SHAPE, "x2 has shape [1] for 3"
    ),
    Inconsistent(
        "GroupNormalization",
        [(1, 6, 4), (6,), (6,)],
        (1, 6, 4),
        SHAPE,
        "num_groups is 4",
        {"num_groups": 4},
    ),
    Inconsistent("LayerNormalization", [(2, 1), (64,)], (2, 1), SHAPE, "x1 has shape [64]"),
    Inconsistent(
        "ScatterND",
        [(5, 4), integers(0, 2).reshape(2, 1), (3, 4)],
        (5, 4),
        SHAPE,
        "x2 has shape [3, 4]",
    ),
    Inconsistent(
        "ScatterND", [(5,), integers(0, 2).reshape(1, 2), (1,)], (5,), SHAPE, "2 indexes for rank 1"
    ),
    Inconsistent("ScatterND", [(5,), np.array(0), (1,)], (5,), RANK, "x1 is a scalar"),
    Inconsistent("GatherND", [(5,), np.array(0)], (1,), RANK, "x1 is a scalar"),
    Inconsistent("GatherND", [(5,), integers()], (5,), SHAPE, "x1 of shape [0] does not index x0"),
    Inconsistent("GlobalLpPool", [(2, 3)], (2, 3), RANK, "x0 has rank 2 and no image", {"p": 3}),
    Inconsistent(
        "GatherND",
        [(2, 5), np.zeros((3, 1), np.int64)],
        (3,),
        SHAPE,
        "x1 of shape [3, 1] does not index x0 of shape [2, 5]",
        {"batch_dims": 1},
    ),
    Inconsistent(
        "ScatterElements",
        [(5, 4), integers(0, 2).reshape(2, 1), (2, 2)],
        (5, 4),
        SHAPE,
        "x2 has shape [2, 2]; the indexes demand [2, 1]",
    ),
    Inconsistent(
        "ScatterElements",
        [(5, 1), integers(0, 2).reshape(1, 2), (1, 2)],
        (5, 1),
        SHAPE,
        "x1 has shape",
    ),
    Inconsistent(
        "Conv",
        [(1, 4, 5, 5), constant(2, 3, 3, 3)],
        (1, 2, 3, 3),
        SHAPE,
        "x1 of shape [2, 3, 3, 3]",
    ),
    Inconsistent(
        "Conv",
        [(1, 3, 5, 5), constant(4, 1, 3, 3)],
        (1, 4, 3, 3),
        SHAPE,
        "in 3 groups does not fit x0",
        {"group": 3},
    ),
    Inconsistent(
        "Conv",
        [(1, 3, 5, 5), constant(4, 3, 3, 3)],
        (1, 4, 3, 3),
        ATTRIBUTE,
        "group is 0",
        {"group": 0},
    ),
    Inconsistent(
        "Conv", [(1, 3, 5, 5), constant(2, 3, 3, 3)], (1, 2, -9, 3), SHAPE, "y has a negative size"
    ),
    Inconsistent("Conv", [(1, 3, 5, 5), constant(2, 3, 3, 3)], (1, 2, 4, 3), SHAPE, "inferred as"),
    Inconsistent(
        "Conv",
        [(1, 3, 5, 5), constant(3, 3, 3, 3)],
        (1, 2, 3, 3),
        SHAPE,
        "Conv computes [1, 3], ...",
    ),
    Inconsistent(
        "Conv",
        [(1, 3, 4, 3), constant(2, 3, 2, 2)],
        (1, 2, 2, 2),
        ATTRIBUTE,
        "kernel_shape is [3, 2]; x1 has windows of [2, 2]",
        {"kernel_shape": (3, 2)},
    ),
    Inconsistent(
        "ConvTranspose",
        [(1, 4, 3, 3), constant(3, 2, 2, 2)],
        (1, 2, 4, 4),
        SHAPE,
        "x1 of shape [3, 2, 2, 2] in 1 groups does not fit x0",
    ),
    Inconsistent("Celu", [(2, 3)], (2, 3), ATTRIBUTE, "alpha is 0", {"alpha": 0.0}),
    Inconsistent(
        "ReverseSequence",
        [(4, 3, 2), integers(1, 2)],
        (4, 3, 2),
        SHAPE,
        "x1 has 2 lengths for a batch of 3",
    ),
    Inconsistent(
        "DepthToSpace",
        [(1, 12, 2, 2)],
        (1, 1, 6, 6),
        SHAPE,
        "x0 has 12 channels",
        {"blocksize": 3, "mode": "CRD"},
    ),
    Inconsistent(
        "DepthToSpace", [(1, 4, 2, 2)], (1, 1, 4, 4), ATTRIBUTE, "blocksize is 0", {"blocksize": 0}
    ),
    Inconsistent(
        "RoiAlign",
        [(1, 2, 8, 8), (3, 4), integers(0, 0, 0)],
        (3, 2, -1, 2),
        SHAPE,
        "y has a negative size",
        {"output_height": -1, "output_width": 2, "sampling_ratio": 2},
    ),
    Inconsistent(
        "Resize",
        [(1, 1, 4, 4), None, np.array([1, 1, -1e13, -1e13], np.float32)],
        (1, 1, -(10**13), -(10**13)),
        SHAPE,
        "y has a negative size",
        {"mode": "linear"},
    ),
    Inconsistent("GRU", [GRU_X, GRU_W, constant(9, 3)], (5, 1, 2, 3), RANK, "x2 has rank 2"),
    Inconsistent("GRU", [(5, 2), GRU_W, GRU_R], (5, 1, 2, 3), RANK, "x0 has rank 2"),
    Inconsistent(
        "GRU", [GRU_X, constant(1, 12, 4), GRU_R], (5, 1, 2, 3), SHAPE, "x1 has shape [1, 12, 4]"
    ),
    Inconsistent(
        "GRU", [GRU_X, GRU_W, GRU_R, constant(1, 9)], (5, 1, 2, 3), SHAPE, "it must be [1, 18]"
    ),
    Inconsistent(
        "GRU",
        [GRU_X, GRU_W, GRU_R],
        (5, 1, 2, 3),
        ATTRIBUTE,
        "activations has 1 names; forward takes 2",
        {"activations": ("Sigmoid",)},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op_type}-{c.detail}")
def test_inconsistent_nodes_are_rejected(
    case: Inconsistent, caplog: pytest.LogCaptureFixture
) -> None:
    node = made(case.op_type, case.inputs, case.output, case.attributes, case.domain)
    with caplog.at_level(logging.ERROR):
        found = judge(node, FL8)
    assert isinstance(found, Rejection)
    assert (found.reason, case.detail in found.detail) == (case.reason, True), found
    assert not caplog.records


CONSISTENT = [
    made("MatMul", [(96, 1, 2, 3), (1, 2, 3, 4)], (96, 2, 2, 4), {}),
    made("Max", [(2, 7), (1,), (2, 7)], (2, 7), {}),
    made("BiasGelu", [(1, 1, 64), (64,)], (1, 1, 64), {}, MICROSOFT),
    made("BatchNormalization", [(1, 4, 3, 3), *[constant(4)] * 4], (1, 4, 3, 3), {}),
    made("Gemm", [(3, 2), (5, 3), (2, 1)], (2, 5), {"transA": 1, "transB": 1}),
    made("Einsum", [(2, 3), (1, 4)], (2, 4), {"equation": "ij,jk->ik"}),
    made("ScatterND", [(5, 4), integers(0, 2).reshape(2, 1), (2, 4)], (5, 4), {}),
    made("ScatterElements", [(5, 4), integers(0, 2).reshape(2, 1), (2, 1)], (5, 4), {}),
    made("Conv", [(1, 3, 5, 5), constant(6, 1, 3, 3)], (1, 6, 3, 3), {"group": 3}),
    made("InstanceNormalization", [(1, 3, 4), (3,), (3,)], (1, 3, 4), {}),
    made("GroupNormalization", [(1, 6, 4), (6,), (6,)], (1, 6, 4), {"num_groups": 3}),
    made("LayerNormalization", [(2, 5), (5,), (1,)], (2, 5), {}),
    made("GatherND", [(2, 5), np.zeros((2, 1), np.int64)], (2,), {"batch_dims": 1}),
    made("ConvTranspose", [(1, 4, 3, 3), constant(4, 2, 2, 2)], (1, 2, 4, 4), {}),
    made("Celu", [(2, 3)], (2, 3), {"alpha": 1e-6}),
    made("ReverseSequence", [(4, 3, 2), integers(1, 2, 4)], (4, 3, 2), {}),
    made("DepthToSpace", [(1, 18, 2, 2)], (1, 2, 6, 6), {"blocksize": 3, "mode": "CRD"}),
    made("GRU", [GRU_X, GRU_W, GRU_R, constant(1, 18), None, (1, 2, 3)], (5, 1, 2, 3), {}),
]


@pytest.mark.parametrize("node", CONSISTENT, ids=lambda n: n.op_type)
def test_their_consistent_counterparts_are_capable(node: GraphNode) -> None:
    assert isinstance(judge(node, FL8), CapableNode)
