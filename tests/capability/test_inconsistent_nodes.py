"""Nodes whose shapes or attributes contradict each other: rejected with the culprit.

ONNX Runtime loads many of them: its shape inference does not compare every pair of sizes, and keeps
declared output shapes that it does not infer. Symbolic dimensions become such nodes with the sizes
that they are tried with.
"""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import defs

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import NO_ATTRIBUTES, Attribute, GraphNode
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.target import Target

FL8 = Target(8)
Shape = tuple[int, ...]
Given = Shape | np.ndarray | None


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def i64(*numbers: int) -> np.ndarray:
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
    attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
    domain: str = "",
) -> GraphNode:
    since = 1 if domain else defs.get_schema(op_type, 21, "").since_version
    values = tuple(value(f"x{i}", given) for i, given in enumerate(inputs))
    out = Value("y", DType.FLOAT, output)
    return GraphNode(0, "n", op_type, domain, since, values, (out,), attributes)


MS = "com.microsoft"
SHAPE, ATTRIBUTE, RANK = Reason.SHAPE, Reason.ATTRIBUTE, Reason.RANK
GRU_X, GRU_W, GRU_R = (5, 2, 4), f32(1, 9, 4), f32(1, 9, 3)
CASES = {
    SHAPE: [
        ("do not broadc", "MatMul", [(96, 96, 2, 3), (1, 2, 3, 4)], (96, 96, 2, 4)),
        ("inner sizes of x0 and x1 differ", "MatMul", [(2, 3), (4, 5)], (2, 5)),
        ("y is declared as [2, 6]", "MatMul", [(2, 3), (3, 5)], (2, 6)),
        ("[2, 7] and [64] and [2, 7] do not broadcast", "Max", [(2, 7), (64,), (2, 7)], (2, 7)),
        ("y is declared as [1]; the inputs", "Max", [(1, 1), (1,)], (1,)),
        ("y is declared as [3, 1]", "Mean", [(3, 1), (1, 2)], (3, 1)),
        ("x1 has shape [3]", "BiasGelu", [(1, 1, 64), (3,)], (1, 1, 64), {}, MS),
        (
            "x3 has shape [64] for x0 of shape [1, 4, 3, 3]",
            "BatchNormalization",
            [(1, 4, 3, 3), f32(4), f32(4), (64,), f32(4)],
            (1, 4, 3, 3),
        ),
        ("inner sizes of x0 and x1 differ: 3 and 4", "Gemm", [(2, 3), (4, 5)], (2, 5)),
        ("differ: 2 and 4", "Gemm", [(2, 3), (5, 4)], (3, 5), {"transA": 1, "transB": 1}),
        ("", "Gemm", [(2, 3), (3, 5), (2, 4)], (2, 5)),
        ("y is declared as [7, 4]", "Gemm", [(224, 3), (3, 4)], (7, 4)),
        (
            "x1 has size 5 along j, another term 3",
            "Einsum",
            [(2, 3), (5, 4)],
            (2, 4),
            {"equation": "ij,jk->ik"},
        ),
        ("x1 has shape [64]", "FastGelu", [(2, 3, 1), (64,)], (2, 3, 1), {}, MS),
        ("x2 has shape [1] for 3", "InstanceNormalization", [(1, 3, 4), (3,), (1,)], (1, 3, 4)),
        (
            "num_groups is 4",
            "GroupNormalization",
            [(1, 6, 4), (6,), (6,)],
            (1, 6, 4),
            {"num_groups": 4},
        ),
        ("x1 has shape [64]", "LayerNormalization", [(2, 1), (64,)], (2, 1)),
        ("x2 has shape [3, 4]", "ScatterND", [(5, 4), i64(0, 2).reshape(2, 1), (3, 4)], (5, 4)),
        ("2 indexes for rank 1", "ScatterND", [(5,), i64(0, 2).reshape(1, 2), (1,)], (5,)),
        ("x1 of shape [0] does not index x0", "GatherND", [(5,), i64()], (5,)),
        (
            "x1 of shape [3, 1] does not index x0 of shape [2, 5]",
            "GatherND",
            [(2, 5), np.zeros((3, 1), np.int64)],
            (3,),
            {"batch_dims": 1},
        ),
        (
            "x2 has shape [2, 2]; the indexes demand [2, 1]",
            "ScatterElements",
            [(5, 4), i64(0, 2).reshape(2, 1), (2, 2)],
            (5, 4),
        ),
        ("x1 has shape", "ScatterElements", [(5, 1), i64(0, 2).reshape(1, 2), (1, 2)], (5, 1)),
        ("x1 of shape [2, 3, 3, 3]", "Conv", [(1, 4, 5, 5), f32(2, 3, 3, 3)], (1, 2, 3, 3)),
        (
            "in 3 groups does not fit x0",
            "Conv",
            [(1, 3, 5, 5), f32(4, 1, 3, 3)],
            (1, 4, 3, 3),
            {"group": 3},
        ),
        ("y has a negative size", "Conv", [(1, 3, 5, 5), f32(2, 3, 3, 3)], (1, 2, -9, 3)),
        ("inferred as", "Conv", [(1, 3, 5, 5), f32(2, 3, 3, 3)], (1, 2, 4, 3)),
        ("Conv computes [1, 3], ...", "Conv", [(1, 3, 5, 5), f32(3, 3, 3, 3)], (1, 2, 3, 3)),
        (
            "x1 of shape [3, 2, 2, 2] in 1 groups does not fit x0",
            "ConvTranspose",
            [(1, 4, 3, 3), f32(3, 2, 2, 2)],
            (1, 2, 4, 4),
        ),
        ("x1 has 2 lengths for a batch of 3", "ReverseSequence", [(4, 3, 2), i64(1, 2)], (4, 3, 2)),
        (
            "x0 has 12 channels",
            "DepthToSpace",
            [(1, 12, 2, 2)],
            (1, 1, 6, 6),
            {"blocksize": 3, "mode": "CRD"},
        ),
        (
            "y has a negative size",
            "RoiAlign",
            [(1, 2, 8, 8), (3, 4), i64(0, 0, 0)],
            (3, 2, -1, 2),
            {"output_height": -1, "output_width": 2, "sampling_ratio": 2},
        ),
        (
            "y has a negative size",
            "Resize",
            [(1, 1, 4, 4), None, np.array([1, 1, -1e13, -1e13], np.float32)],
            (1, 1, -(10**13), -(10**13)),
            {"mode": "linear"},
        ),
        ("x1 has shape [1, 12, 4]", "GRU", [GRU_X, f32(1, 12, 4), GRU_R], (5, 1, 2, 3)),
        ("it must be [1, 18]", "GRU", [GRU_X, GRU_W, GRU_R, f32(1, 9)], (5, 1, 2, 3)),
    ],
    ATTRIBUTE: [
        ("group is 0", "Conv", [(1, 3, 5, 5), f32(4, 3, 3, 3)], (1, 4, 3, 3), {"group": 0}),
        (
            "kernel_shape is [3, 2]; x1 has windows of [2, 2]",
            "Conv",
            [(1, 3, 4, 3), f32(2, 3, 2, 2)],
            (1, 2, 2, 2),
            {"kernel_shape": (3, 2)},
        ),
        ("alpha is 0", "Celu", [(2, 3)], (2, 3), {"alpha": 0.0}),
        ("blocksize is 0", "DepthToSpace", [(1, 4, 2, 2)], (1, 1, 4, 4), {"blocksize": 0}),
        (
            "activations has 1 names; forward takes 2",
            "GRU",
            [GRU_X, GRU_W, GRU_R],
            (5, 1, 2, 3),
            {"activations": ("Sigmoid",)},
        ),
    ],
    RANK: [
        ("x0 has rank 3", "Gemm", [(1, 2, 3), (3, 4)], (2, 4)),
        ("x0 has rank 1", "InstanceNormalization", [(3,), (3,), (3,)], (3,)),
        ("x1 is a scalar", "ScatterND", [(5,), np.array(0), (1,)], (5,)),
        ("x1 is a scalar", "GatherND", [(5,), np.array(0)], (1,)),
        ("x0 has rank 2 and no image", "GlobalLpPool", [(2, 3)], (2, 3), {"p": 3}),
        ("x2 has rank 2", "GRU", [GRU_X, GRU_W, f32(9, 3)], (5, 1, 2, 3)),
        ("x0 has rank 2", "GRU", [(5, 2), GRU_W, GRU_R], (5, 1, 2, 3)),
    ],
}


@pytest.mark.parametrize("reason", CASES)
def test_inconsistent_nodes_are_rejected(reason: Reason, caplog: pytest.LogCaptureFixture) -> None:
    for detail, *given in CASES[reason]:
        with caplog.at_level(logging.ERROR):
            found = judge(made(*given), FL8)
        assert isinstance(found, Rejection), given
        assert (found.reason, detail in found.detail) == (reason, True), found
        assert not caplog.records


CONSISTENT = [
    made("MatMul", [(96, 1, 2, 3), (1, 2, 3, 4)], (96, 2, 2, 4)),
    made("Max", [(2, 7), (1,), (2, 7)], (2, 7)),
    made("BiasGelu", [(1, 1, 64), (64,)], (1, 1, 64), {}, MS),
    made("BatchNormalization", [(1, 4, 3, 3), *[f32(4)] * 4], (1, 4, 3, 3)),
    made("Gemm", [(3, 2), (5, 3), (2, 1)], (2, 5), {"transA": 1, "transB": 1}),
    made("Einsum", [(2, 3), (1, 4)], (2, 4), {"equation": "ij,jk->ik"}),
    made("ScatterND", [(5, 4), i64(0, 2).reshape(2, 1), (2, 4)], (5, 4)),
    made("ScatterElements", [(5, 4), i64(0, 2).reshape(2, 1), (2, 1)], (5, 4)),
    made("Conv", [(1, 3, 5, 5), f32(6, 1, 3, 3)], (1, 6, 3, 3), {"group": 3}),
    made("InstanceNormalization", [(1, 3, 4), (3,), (3,)], (1, 3, 4)),
    made("GroupNormalization", [(1, 6, 4), (6,), (6,)], (1, 6, 4), {"num_groups": 3}),
    made("LayerNormalization", [(2, 5), (5,), (1,)], (2, 5)),
    made("GatherND", [(2, 5), np.zeros((2, 1), np.int64)], (2,), {"batch_dims": 1}),
    made("ConvTranspose", [(1, 4, 3, 3), f32(4, 2, 2, 2)], (1, 2, 4, 4)),
    made("Celu", [(2, 3)], (2, 3), {"alpha": 1e-6}),
    made("ReverseSequence", [(4, 3, 2), i64(1, 2, 4)], (4, 3, 2)),
    made("DepthToSpace", [(1, 18, 2, 2)], (1, 2, 6, 6), {"blocksize": 3, "mode": "CRD"}),
    made("GRU", [GRU_X, GRU_W, GRU_R, f32(1, 18), None, (1, 2, 3)], (5, 1, 2, 3)),
]


@pytest.mark.parametrize("node", CONSISTENT, ids=lambda n: n.op_type)
def test_their_consistent_counterparts_are_capable(node: GraphNode) -> None:
    assert isinstance(judge(node, FL8), CapableNode)
