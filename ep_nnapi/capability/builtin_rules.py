"""Operator support rules of ONNX Runtime's built-in NNAPI provider.

They are the rule set of target builtin-nnapi, for models to be run by ONNX Runtime's mobile
packages. They are necessary conditions on ONNX nodes: a node must have a lowering here as well. The
built-in provider's grouping (waves of ready nodes) is not copied. Clusters here are connected, so
there can be more of them.
Source: ONNX Runtime's nnapi_builtin provider, read in the 1.19 development tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ep_nnapi.capability import builtin_checks as checks
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import Target

_FLOAT = (DType.FLOAT,)
_GROUPED = {
    "Add",
    "AveragePool",
    "Concat",
    "Conv",
    "Gemm",
    "MatMul",
    "Mul",
    "Reshape",
    "Resize",
    "Softmax",
    "Transpose",
}
"""The operators that the built-in provider supports in a QDQ group."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The conditions for one operator.

    level    minimum feature level; `nchw` is the minimum under USE_NCHW
    since    minimum opset
    dtypes   supported element types of input 0
    ranks    minimum and maximum rank of input 0; None: not checked
    """

    level: int = 1
    nchw: int = 1
    since: int = 1
    dtypes: Sequence[DType] = _FLOAT
    ranks: tuple[int, int] | None = None
    checks: Sequence[checks.Check] = ()


def builtin_rejection(node: GraphNode, target: Target) -> Rejection | None:
    """Returns the rejection of a node that the built-in provider does not support, else None."""
    try:
        _check(Node(node, target))
    except Reject as reject:
        detail = f"ONNX Runtime's own provider: {reject.detail}"
        return Rejection(node.name, node.op_type, reject.reason, detail)
    return None


def _check(n: Node) -> None:
    node = n.node
    rule = RULES.get((node.domain, node.op_type))
    if rule is None:
        raise Reject(Reason.OP, f"{node.op_type} is not supported")
    level = max(rule.level, rule.nchw if n.target.nchw else 1)
    n.require(
        n.target.feature_level >= level,
        Reason.LEVEL,
        f"{node.op_type} needs feature level {level}, the target has {n.target.feature_level}",
    )
    n.require(
        node.since >= rule.since,
        Reason.OPSET,
        f"{node.op_type}-{node.since} is older than opset {rule.since}",
    )
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            _ = value.shape
    x = n.input(0)
    if node.parts:
        _check_group(n, x)
    else:
        n.require(
            x.dtype in rule.dtypes,
            Reason.DTYPE,
            f"{x.name} is {x.dtype.name}, which is not supported",
        )
    if rule.ranks is not None:
        checks.rank(n, x, *rule.ranks)
    for check in rule.checks:
        check(n)


def _check_group(n: Node, x: Value) -> None:
    op_type = n.node.op_type
    n.require(
        op_type in _GROUPED, Reason.QUANTIZATION, f"{op_type} is not supported in a QDQ group"
    )
    n.require(
        x.dtype is DType.UINT8,
        Reason.QUANTIZATION,
        f"{x.name} is {x.dtype.name}; activations must be UINT8",
    )


_ANY = (DType.FLOAT, DType.UINT8)
_ALL_RANKS = (1, 4)
_UNARY_3 = Rule(level=3, since=6)
_POOL = Rule(level=2, nchw=3, ranks=(4, 4), dtypes=_ANY, checks=(checks.pool,))
_GLOBAL_POOL = Rule(level=2, nchw=3, ranks=(4, 4))
_QLINEAR = (DType.UINT8,)
_MS = "com.microsoft"
RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): Rule(since=7, checks=(checks.both_ranks,)) for name in ("Add", "Mul")},
    **{("", name): Rule(level=2, since=7, checks=(checks.both_ranks,)) for name in ("Sub", "Div")},
    **{("", name): _UNARY_3 for name in ("Abs", "Exp", "Neg", "Sin", "Sqrt", "Log")},
    **{("", name): Rule(level=3, since=6, checks=(checks.two_inputs,)) for name in ("Min", "Max")},
    **{("", name): Rule(since=6) for name in ("Floor", "Tanh")},
    **{("", name): _GLOBAL_POOL for name in ("GlobalAveragePool", "GlobalMaxPool")},
    **{("", name): Rule(ranks=_ALL_RANKS) for name in ("Flatten",)},
    ("", "Pow"): Rule(level=3, since=7),
    ("", "PRelu"): Rule(level=3, checks=(checks.both_ranks,)),
    ("", "Sigmoid"): Rule(since=6, ranks=_ALL_RANKS),
    ("", "Relu"): Rule(),
    ("", "Clip"): Rule(checks=(checks.activation_range,)),
    ("", "Elu"): Rule(level=4, since=6),
    ("", "LeakyRelu"): Rule(level=3, since=6, ranks=_ALL_RANKS),
    ("", "BatchNormalization"): Rule(
        since=7,
        ranks=(0, 4),
        checks=(checks.attribute("spatial", 1, 1), checks.constant(1, 2, 3, 4)),
    ),
    ("", "Cast"): Rule(level=3, checks=(checks.cast,)),
    ("", "Concat"): Rule(dtypes=_ANY, ranks=_ALL_RANKS),
    ("", "Conv"): Rule(level=2, nchw=3, ranks=(4, 4), checks=(checks.convolution,)),
    ("", "DepthToSpace"): Rule(
        nchw=3, ranks=(4, 4), checks=(checks.attribute("mode", "DCR", "DCR"),)
    ),
    ("", "Reshape"): Rule(since=5, ranks=_ALL_RANKS, checks=(checks.constant(1),)),
    ("", "Squeeze"): Rule(level=2, ranks=_ALL_RANKS, checks=(checks.constant(1),)),
    ("", "Unsqueeze"): Rule(ranks=_ALL_RANKS, checks=(checks.constant(1),)),
    ("", "Gather"): Rule(level=3, ranks=_ALL_RANKS, checks=(checks.gather,)),
    ("", "Gemm"): Rule(since=7, ranks=(2, 2), checks=(checks.gemm,)),
    ("", "MatMul"): Rule(checks=(checks.matmul,)),
    ("", "AveragePool"): _POOL,
    ("", "MaxPool"): _POOL,
    ("", "Identity"): Rule(),
    ("", "LRN"): Rule(level=2, ranks=(4, 4)),
    ("", "Pad"): Rule(level=3, since=11, ranks=_ALL_RANKS, checks=(checks.pad,)),
    ("", "ReduceMean"): Rule(level=2, ranks=_ALL_RANKS, checks=(checks.axes,)),
    ("", "Resize"): Rule(level=3, since=11, dtypes=_ANY, ranks=(4, 4), checks=(checks.resize,)),
    ("", "Slice"): Rule(level=2, since=10, ranks=(0, 4), checks=(checks.slicing,)),
    ("", "Softmax"): Rule(level=2, checks=(checks.softmax,)),
    ("", "Split"): Rule(level=3, since=13, checks=(checks.split,)),
    ("", "Transpose"): Rule(level=2, dtypes=_ANY, ranks=_ALL_RANKS),
    ("", "QuantizeLinear"): Rule(level=3, checks=(checks.per_tensor_uint8,)),
    ("", "DequantizeLinear"): Rule(dtypes=_QLINEAR, checks=(checks.per_tensor_uint8,)),
    ("", "QLinearConv"): Rule(
        level=2, dtypes=_QLINEAR, ranks=(4, 4), checks=(checks.constant(3, 8),)
    ),
    ("", "QLinearMatMul"): Rule(dtypes=_QLINEAR, ranks=(2, 2), checks=(checks.constant(3),)),
    **{(_MS, name): Rule(dtypes=_QLINEAR, ranks=(0, 4)) for name in ("QLinearAdd", "QLinearMul")},
    (_MS, "QLinearAveragePool"): Rule(
        level=2, dtypes=_QLINEAR, ranks=(4, 4), checks=(checks.pool,)
    ),
    (_MS, "QLinearSigmoid"): Rule(
        dtypes=_QLINEAR, ranks=_ALL_RANKS, checks=(checks.sigmoid_quantization,)
    ),
}
