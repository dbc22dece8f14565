"""The operators: each file a family, each operator one function from a node to NNAPI calls."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from types import ModuleType

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
"""By (domain, operator type), the newest schema version first."""


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator that can be taken, as `ep-nnapi ops` prints it.

    since       the first opset of this variant
    operations  of NNAPI that it becomes, and the lowest `level` of one
    types       of NNAPI that its data may have
    """

    op_type: str
    domain: str
    since: int
    operations: tuple[str, ...]
    level: int
    types: tuple[str, ...]
    summary: str


def operators() -> tuple[OperatorInfo, ...]:
    """The operators that can be taken, in the order of their names. `ep_nnapi.ops()` in Python."""
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
    """The NNAPI types of the data, as far as some operation that it becomes takes them."""
    codes = {t.types["T"] for row in op.emits for t in row.typings if "T" in t.types}
    return tuple(code.name.removeprefix("TENSOR_") for code in sorted(codes))


class _Callable(ModuleType):
    """The package itself: `ep_nnapi.ops` is this module, and `ep_nnapi.ops()` a public function."""

    def __call__(self) -> tuple[OperatorInfo, ...]:
        return operators()


sys.modules[__name__].__class__ = _Callable
