"""The operators: each file a family, each operator one function from a node to NNAPI calls."""

from __future__ import annotations

from collections import defaultdict

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
from ep_nnapi.ops.node import Op, ops_of

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
