"""Operator support rules of ONNX Runtime's built-in NNAPI provider.

They are the rule set of target builtin-nnapi, for models to be run by ONNX Runtime's mobile
packages. They are necessary conditions on ONNX nodes: a node must have a lowering here as well. The
built-in provider's grouping (waves of ready nodes) is not copied. Clusters here are connected, so
there can be more of them.
Source: ONNX Runtime's nnapi_builtin provider, read in the 1.19 development tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import Target

Check: TypeAlias = Callable[[Node], None]


def rank(n: Node, value: Value, low: int, high: int) -> None:
    """Checks that the rank is between `low` and `high`, inclusive."""
    takes = str(low) if low == high else f"{low}-{high}"
    detail = f"{value.name} has rank {value.rank}, supported: {takes}"
    n.require(low <= value.rank <= high, Reason.RANK, detail)


def both_ranks(n: Node) -> None:
    """Checks that all inputs have ranks 0 to 4."""
    for value in n.inputs:
        rank(n, value, 0, 4)


def constant(*indexes: int) -> Check:
    """Returns a check that the inputs at these positions are constant or omitted."""

    def check(n: Node) -> None:
        for i in indexes:
            if n.has(i):
                n.constant(i)

    return check


def attribute(name: str, wanted: object) -> Check:
    """Returns a check that the attribute has the only supported value, which is its default."""

    def check(n: Node) -> None:
        given = n.node.attributes.get(name, wanted)
        n.require(given == wanted, Reason.ATTRIBUTE, f"{name} is {given!r}, supported: {wanted!r}")

    return check


def only(n: Node, **wanted: int) -> None:
    """Checks that numeric attributes have the only supported value, which is their default."""
    for name, number in wanted.items():
        n.require(n.real(name, number) == number, Reason.ATTRIBUTE, f"{name} is not {number}")


def two_inputs(n: Node) -> None:
    """Checks for exactly two inputs."""
    count = len(n.node.inputs)
    n.require(count == 2, Reason.ATTRIBUTE, f"{count} inputs, supported: 2")


def activation_range(n: Node) -> None:
    """Checks that the range of Clip is that of RELU6 or RELU1."""
    low, high = _bound(n, "min", 1), _bound(n, "max", 2)
    detail = f"the range is [{low}, {high}], supported: [0, 6] and [-1, 1]"
    n.require((low, high) in {(0.0, 6.0), (-1.0, 1.0)}, Reason.ATTRIBUTE, detail)


def _bound(n: Node, name: str, index: int) -> float | None:
    if n.has_attribute(name):
        return n.real(name)
    return float(n.array(index).reshape(-1)[0]) if n.has(index) else None


def convolution(n: Node) -> None:
    """Checks for constant 4-D weights, no dilations in a grouped Conv or below level 3."""
    weights = n.input(1)
    n.constant(1)
    rank(n, weights, 4, 4)
    group = n.integer("group", 1)
    dilations = n.integers("dilations", (1, 1))
    grouped = group != 1 and weights.shape[1] != 1
    n.require(
        dilations == (1, 1) or not grouped, Reason.ATTRIBUTE, "dilations in a grouped convolution"
    )
    detail = "dilations need feature level 3"
    n.require(dilations == (1, 1) or n.target.feature_level >= 3, Reason.LEVEL, detail)


def pool(n: Node) -> None:
    """Checks for 2-D pooling without attributes beyond kernel, strides and pads."""
    kernel = n.integers("kernel_shape")
    n.require(len(kernel) == 2, Reason.RANK, "it pools in 2-D only")
    n.require(not n.has_output(1), Reason.ATTRIBUTE, "output Indices is not supported")
    only(n, ceil_mode=0, count_include_pad=0, storage_order=0)
    dilations = n.integers("dilations", (1, 1))
    n.require(dilations == (1, 1), Reason.ATTRIBUTE, f"dilations are {list(dilations)}")


def gemm(n: Node) -> None:
    """Checks for alpha and beta 1, A not transposed, B constant or transposed, and C a row."""
    only(n, alpha=1, beta=1, transA=0)
    if n.integer("transB", 0) == 0:
        n.constant(1)
    if n.has(2):
        c, columns = n.input(2), n.output().shape[1]
        supported = c.rank > 0 and c.size == columns == c.shape[-1]
        n.require(supported, Reason.SHAPE, f"{c.name} is not of shape [{columns}]")


def matmul(n: Node) -> None:
    """Checks for two matrices with constant B, or batches of equal shape at level 3 or above."""
    a, b = n.input(0), n.input(1)
    if a.rank == b.rank == 2:
        n.constant(1)
        return
    n.require(
        a.rank == b.rank > 2 and a.shape[:-2] == b.shape[:-2] and not n.node.parts,
        Reason.RANK,
        f"ranks {a.rank} and {b.rank}: supported: matrices, or batches of equal shape",
    )
    n.require(n.target.feature_level >= 3, Reason.LEVEL, "batches of matrices need feature level 3")


def resize(n: Node) -> None:
    """Checks for constant sizes or scales, spatial dimensions only, and modes that NNAPI has."""
    given = next((i for i in (3, 2) if n.has(i) and n.input(i).shape != (0,)), 2)
    n.constant(given)
    x, y = n.input(0), n.output()
    nchw = x.shape[:2] == y.shape[:2]
    nhwc = (x.shape[0], x.shape[3]) == (y.shape[0], y.shape[3])
    n.require(nchw or nhwc, Reason.SHAPE, "it resizes two spatial dimensions only")
    only(n, exclude_outside=0, antialias=0)
    n.require(not n.has_attribute("axes"), Reason.ATTRIBUTE, "axes are given")
    mode = n.text("mode", "nearest")
    coordinates = n.text("coordinate_transformation_mode", "half_pixel")
    supported = coordinates == "asymmetric" and mode == "linear"
    if mode == "linear" and n.target.feature_level >= 4:
        supported |= coordinates in ("half_pixel", "align_corners")
    if mode == "nearest" and coordinates == "asymmetric":
        supported = n.text("nearest_mode", "round_prefer_floor") == "floor"
    n.require(supported, Reason.ATTRIBUTE, f"{mode} with {coordinates} is not supported")


def pad(n: Node) -> None:
    """Checks for mode constant, and pads that are constant and not negative."""
    attribute("mode", "constant")(n)
    constant(1, 2)(n)
    n.require(min(n.integers_at(1)) >= 0, Reason.ATTRIBUTE, "pads are negative")


def axes(n: Node) -> None:
    """Checks for constant axes, where empty axes mean all."""
    only(n, noop_with_empty_axes=0)
    constant(1)(n)


def gather(n: Node) -> None:
    """Checks that the indices are INT32 or constant."""
    if n.input(1).dtype is not DType.INT32:
        n.constant(1)


def split(n: Node) -> None:
    """Checks for a split into equal parts, with constant sizes if given."""
    constant(1)(n)
    axis = n.axis(default=0)
    sizes = {n.output(i).shape[axis] for i in range(len(n.node.outputs))}
    n.require(len(sizes) == 1, Reason.ATTRIBUTE, "it splits into equal parts only")


def cast(n: Node) -> None:
    """Checks for a cast to FLOAT or INT32."""
    supported = n.integer("to") in (DType.FLOAT, DType.INT32)
    n.require(supported, Reason.DTYPE, "it casts to FLOAT and INT32 only")


def softmax(n: Node) -> None:
    """Checks rank and axis for the feature level, and NNAPI's fixed output quantization."""
    x = n.input(0)
    if n.node.since >= 13:
        rank(n, x, 0, 4)
    if n.target.feature_level < 3:
        last = n.axis(default=-1 if n.node.since >= 13 else 1) == x.rank - 1
        n.require(x.rank in (2, 4) and last, Reason.LEVEL, "that axis needs feature level 3")
    if n.output().quantization is not None:
        sigmoid_quantization(n)


def sigmoid_quantization(n: Node) -> None:
    """Checks for NNAPI's fixed output quantization."""
    q = n.output().quantization
    n.require(
        q is not None and q.scale == (1 / 256,) and q.zero_point == (0,),
        Reason.QUANTIZATION,
        "the output must have scale 1/256 and zero point 0",
    )


def per_tensor_uint8(n: Node) -> None:
    """Checks for a UINT8 tensor with one constant scale."""
    value = n.input(0) if n.node.op_type == "DequantizeLinear" else n.output()
    q = value.quantization
    n.require(
        value.dtype is DType.UINT8 and q is not None and q.per_tensor,
        Reason.QUANTIZATION,
        f"{value.name} must be UINT8 with one constant scale",
    )


_FLOAT = (DType.FLOAT,)


@dataclass(frozen=True, slots=True)
class Rule:
    """The conditions for one operator.

    level    minimum feature level; `nchw` is the minimum under USE_NCHW
    since    minimum opset
    dtypes   supported element types of input 0
    ranks    minimum and maximum rank of input 0; None: not checked
    group    True if the operator is supported in a QDQ group
    """

    level: int = 1
    nchw: int = 1
    since: int = 1
    dtypes: Sequence[DType] = _FLOAT
    ranks: tuple[int, int] | None = None
    checks: Sequence[Check] = ()
    group: bool = False


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
    detail = f"{node.op_type} needs feature level {level}, the target has {n.target.feature_level}"
    n.require(n.target.feature_level >= level, Reason.LEVEL, detail)
    detail = f"{node.op_type}-{node.since} is older than opset {rule.since}"
    n.require(node.since >= rule.since, Reason.OPSET, detail)
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            _ = value.shape
    for value in (v for part in (*node.parts, node) for v in part.inputs if v is not None):
        packed = value.constant.packed if value.constant is not None else None
        if packed is not None:
            raise Reject(Reason.DTYPE, f"{value.name} is {packed.name}, which is not supported")
    x = n.input(0)
    called = f"{x.name} is {x.dtype.name}"
    if node.parts:
        grouped = f"{node.op_type} is not supported in a QDQ group"
        n.require(rule.group, Reason.QUANTIZATION, grouped)
        unsigned = x.dtype is DType.UINT8
        n.require(unsigned, Reason.QUANTIZATION, f"{called}; activations must be UINT8")
    else:
        n.require(x.dtype in rule.dtypes, Reason.DTYPE, f"{called}, which is not supported")
    if rule.ranks is not None:
        rank(n, x, *rule.ranks)
    for check in rule.checks:
        check(n)


_ANY = (DType.FLOAT, DType.UINT8)
_ALL_RANKS = (1, 4)
_UNARY_3 = Rule(level=3, since=6)
_ADD = Rule(since=7, checks=(both_ranks,), group=True)
_POOL = Rule(level=2, nchw=3, ranks=(4, 4), dtypes=_ANY, checks=(pool,))
_GLOBAL_POOL = Rule(level=2, nchw=3, ranks=(4, 4))
_QLINEAR = (DType.UINT8,)
RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): _ADD for name in ("Add", "Mul")},
    **{("", name): Rule(level=2, since=7, checks=(both_ranks,)) for name in ("Sub", "Div")},
    **{("", name): _UNARY_3 for name in ("Abs", "Exp", "Neg", "Sin", "Sqrt", "Log")},
    **{("", name): Rule(level=3, since=6, checks=(two_inputs,)) for name in ("Min", "Max")},
    **{("", name): Rule(since=6) for name in ("Floor", "Tanh")},
    **{("", name): _GLOBAL_POOL for name in ("GlobalAveragePool", "GlobalMaxPool")},
    ("", "Flatten"): Rule(ranks=_ALL_RANKS),
    ("", "Pow"): Rule(level=3, since=7),
    ("", "PRelu"): Rule(level=3, checks=(both_ranks,)),
    ("", "Sigmoid"): Rule(since=6, ranks=_ALL_RANKS),
    ("", "Relu"): Rule(),
    ("", "Clip"): Rule(checks=(activation_range,)),
    ("", "Elu"): Rule(level=4, since=6),
    ("", "LeakyRelu"): Rule(level=3, since=6, ranks=_ALL_RANKS),
    ("", "BatchNormalization"): Rule(
        since=7,
        ranks=(0, 4),
        checks=(attribute("spatial", 1), constant(1, 2, 3, 4)),
    ),
    ("", "Cast"): Rule(level=3, checks=(cast,)),
    ("", "Concat"): Rule(dtypes=_ANY, ranks=_ALL_RANKS, group=True),
    ("", "Conv"): Rule(level=2, nchw=3, ranks=(4, 4), checks=(convolution,), group=True),
    ("", "DepthToSpace"): Rule(nchw=3, ranks=(4, 4), checks=(attribute("mode", "DCR"),)),
    ("", "Reshape"): Rule(since=5, ranks=_ALL_RANKS, checks=(constant(1),), group=True),
    ("", "Squeeze"): Rule(level=2, ranks=_ALL_RANKS, checks=(constant(1),)),
    ("", "Unsqueeze"): Rule(ranks=_ALL_RANKS, checks=(constant(1),)),
    ("", "Gather"): Rule(level=3, ranks=_ALL_RANKS, checks=(gather,)),
    ("", "Gemm"): Rule(since=7, ranks=(2, 2), checks=(gemm,), group=True),
    ("", "MatMul"): Rule(checks=(matmul,), group=True),
    ("", "AveragePool"): replace(_POOL, group=True),
    ("", "MaxPool"): _POOL,
    ("", "Identity"): Rule(),
    ("", "LRN"): Rule(level=2, ranks=(4, 4)),
    ("", "Pad"): Rule(level=3, since=11, ranks=_ALL_RANKS, checks=(pad,)),
    ("", "ReduceMean"): Rule(level=2, ranks=_ALL_RANKS, checks=(axes,)),
    ("", "Resize"): Rule(
        level=3, since=11, dtypes=_ANY, ranks=(4, 4), checks=(resize,), group=True
    ),
    ("", "Slice"): Rule(level=2, since=10, ranks=(0, 4), checks=(constant(1, 2, 3, 4),)),
    ("", "Softmax"): Rule(level=2, checks=(softmax,), group=True),
    ("", "Split"): Rule(level=3, since=13, checks=(split,)),
    ("", "Transpose"): Rule(level=2, dtypes=_ANY, ranks=_ALL_RANKS, group=True),
    ("", "QuantizeLinear"): Rule(level=3, checks=(per_tensor_uint8,)),
    ("", "DequantizeLinear"): Rule(dtypes=_QLINEAR, checks=(per_tensor_uint8,)),
    ("", "QLinearConv"): Rule(level=2, dtypes=_QLINEAR, ranks=(4, 4), checks=(constant(3, 8),)),
    ("", "QLinearMatMul"): Rule(dtypes=_QLINEAR, ranks=(2, 2), checks=(constant(3),)),
    **{
        (MICROSOFT_DOMAIN, name): Rule(dtypes=_QLINEAR, ranks=(0, 4))
        for name in ("QLinearAdd", "QLinearMul")
    },
    (MICROSOFT_DOMAIN, "QLinearAveragePool"): Rule(
        level=2, dtypes=_QLINEAR, ranks=(4, 4), checks=(pool,)
    ),
    (MICROSOFT_DOMAIN, "QLinearSigmoid"): Rule(
        dtypes=_QLINEAR, ranks=_ALL_RANKS, checks=(sigmoid_quantization,)
    ),
}
