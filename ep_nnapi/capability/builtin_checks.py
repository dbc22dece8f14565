"""Checks of ONNX Runtime's built-in NNAPI provider that do not fit a row of `builtin_rules`.

Each raises Reject with the reason for a node that the provider does not support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.node import Node

Check: TypeAlias = Callable[[Node], None]


def rank(n: Node, value: Value, low: int, high: int) -> None:
    """Checks that the rank is between `low` and `high`, inclusive."""
    takes = str(low) if low == high else f"{low}-{high}"
    n.require(
        low <= value.rank <= high,
        Reason.RANK,
        f"{value.name} has rank {value.rank}, supported: {takes}",
    )


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


def attribute(name: str, wanted: object, default: object) -> Check:
    """Returns a check that the attribute has the only supported value."""

    def check(n: Node) -> None:
        given = n.node.attributes.get(name, default)
        n.require(given == wanted, Reason.ATTRIBUTE, f"{name} is {given!r}, supported: {wanted!r}")

    return check


def two_inputs(n: Node) -> None:
    """Checks for exactly two inputs."""
    count = len(n.node.inputs)
    n.require(count == 2, Reason.ATTRIBUTE, f"{count} inputs, supported: 2")


def activation_range(n: Node) -> None:
    """Checks that the range of Clip is that of RELU6 or RELU1."""
    low, high = _bound(n, "min", 1), _bound(n, "max", 2)
    n.require(
        (low, high) in {(0.0, 6.0), (-1.0, 1.0)},
        Reason.ATTRIBUTE,
        f"the range is [{low}, {high}], supported: [0, 6] and [-1, 1]",
    )


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
    n.require(
        dilations == (1, 1) or n.target.feature_level >= 3,
        Reason.LEVEL,
        "dilations need feature level 3",
    )


def pool(n: Node) -> None:
    """Checks for 2-D pooling without attributes beyond kernel, strides and pads."""
    kernel = n.integers("kernel_shape")
    n.require(len(kernel) == 2, Reason.RANK, "it pools in 2-D only")
    n.require(not n.has_output(1), Reason.ATTRIBUTE, "output Indices is not supported")
    for name, default in (("ceil_mode", 0), ("count_include_pad", 0), ("storage_order", 0)):
        n.require(n.integer(name, default) == 0, Reason.ATTRIBUTE, f"{name} is not 0")
    dilations = n.integers("dilations", (1, 1))
    n.require(dilations == (1, 1), Reason.ATTRIBUTE, f"dilations are {list(dilations)}")


def gemm(n: Node) -> None:
    """Checks for alpha and beta 1, A not transposed, B constant or transposed, and C a row."""
    for name in ("alpha", "beta"):
        n.require(n.real(name, 1.0) == 1.0, Reason.ATTRIBUTE, f"{name} is not 1")
    n.require(n.integer("transA", 0) == 0, Reason.ATTRIBUTE, "transA is not 0")
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
    n.require(n.integer("exclude_outside", 0) == 0, Reason.ATTRIBUTE, "exclude_outside is not 0")
    n.require(n.integer("antialias", 0) == 0, Reason.ATTRIBUTE, "antialias is not 0")
    n.require(not n.has_attribute("axes"), Reason.ATTRIBUTE, "axes are given")
    mode = n.text("mode", "nearest")
    coordinates = n.text("coordinate_transformation_mode", "half_pixel")
    if mode == "linear":
        from_level_4 = (
            coordinates in ("half_pixel", "align_corners") and n.target.feature_level >= 4
        )
        supported = coordinates == "asymmetric" or from_level_4
    else:
        supported = (
            mode == "nearest"
            and coordinates == "asymmetric"
            and n.text("nearest_mode", "round_prefer_floor") == "floor"
        )
    n.require(supported, Reason.ATTRIBUTE, f"{mode} with {coordinates} is not supported")


def slicing(n: Node) -> None:
    """Checks that all inputs but the data are constant."""
    constant(1, 2, 3, 4)(n)


def pad(n: Node) -> None:
    """Checks for mode constant, and pads that are constant and not negative."""
    attribute("mode", "constant", "constant")(n)
    constant(1, 2)(n)
    n.require(min(n.integers_at(1)) >= 0, Reason.ATTRIBUTE, "pads are negative")


def axes(n: Node) -> None:
    """Checks for constant axes, where empty axes mean all."""
    n.require(
        n.integer("noop_with_empty_axes", 0) == 0,
        Reason.ATTRIBUTE,
        "noop_with_empty_axes is not 0",
    )
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
    quantized = n.output().quantization
    if quantized is not None:
        n.require(
            quantized.scale == (1 / 256,) and quantized.zero_point == (0,),
            Reason.QUANTIZATION,
            "the output must have scale 1/256 and zero point 0",
        )


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
