"""The ONNX operators: one module for each family, one lowering function for each operator.

A lowering maps a node to NNAPI calls.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from types import ModuleType

from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.ops import (
    activation,
    casting,
    comparison,
    constants,
    contrib,
    convolution,
    detection,
    einsum,
    elementwise,
    indexing,
    lstm,
    matmul,
    matrices,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    quantization_dynamic,
    ranking,
    recurrent,
    reduction,
    reshaping,
    resize,
    scattering,
    smooth,
    softmax,
    trigonometry,
    unary,
)
from ep_nnapi.ops.lib.node import Op, ops_of

FAMILIES = (
    activation,
    casting,
    comparison,
    constants,
    contrib,
    convolution,
    detection,
    einsum,
    elementwise,
    indexing,
    lstm,
    matmul,
    matrices,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    quantization_dynamic,
    ranking,
    recurrent,
    reduction,
    reshaping,
    resize,
    scattering,
    smooth,
    softmax,
    trigonometry,
    unary,
)

OPS: tuple[Op, ...] = tuple(o for family in FAMILIES for o in ops_of(family))


def _index() -> dict[tuple[str, str], tuple[Op, ...]]:
    found: defaultdict[tuple[str, str], list[Op]] = defaultdict(list)
    for declared in OPS:
        found[declared.domain, declared.op_type].append(declared)
    return {key: tuple(sorted(ops, key=lambda o: -o.since)) for key, ops in found.items()}


VARIANTS = _index()
"""Operators by (domain, operator type), the newest schema version first."""


@frozen
class OperatorInfo:
    """A supported operator, as `ep-nnapi ops` prints it.

    since       the first opset of this variant
    operations  the NNAPI operations that it lowers to
    level       the lowest feature level of any of these
    types       the NNAPI types that its data may have
    summary     the first line of the operator's docstring
    """

    op_type: str
    domain: str
    since: int
    operations: tuple[str, ...]
    level: int
    types: tuple[str, ...]
    summary: str


def operators() -> tuple[OperatorInfo, ...]:
    """Return the supported operators, sorted by name; public as `ep_nnapi.ops()`."""
    ordered = sorted(OPS, key=lambda o: (o.domain, o.op_type, o.since))
    return tuple(
        OperatorInfo(
            o.op_type,
            o.domain,
            o.since,
            tuple(row.name for row in o.emits),
            min(row.level for row in o.emits),
            _types(o),
            o.doc.strip().split("\n", maxsplit=1)[0],
        )
        for o in ordered
    )


def _types(op: Op) -> tuple[str, ...]:
    """Return the NNAPI data types that any of the operator's NNAPI operations accepts."""
    codes = {t.types["T"] for row in op.emits for t in row.typings if "T" in t.types}
    return tuple(code.name.removeprefix("TENSOR_") for code in sorted(codes))


class _Callable(ModuleType):
    """Module type that makes the package callable, as the public function `ep_nnapi.ops()`."""

    def __call__(self) -> tuple[OperatorInfo, ...]:
        return operators()


sys.modules[__name__].__class__ = _Callable
