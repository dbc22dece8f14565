"""The ONNX operators: one module for each family, one lowering function for each operator.

A lowering maps a node to NNAPI calls.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators.lib.node import Operator, ops_of

if TYPE_CHECKING:
    from ep_nnapi.operators.lib.reachable import Reachable

OPS: tuple[Operator, ...] = tuple(o for f in families(__name__, __path__) for o in ops_of(f))


def _index() -> dict[tuple[str, str], tuple[Operator, ...]]:
    found: defaultdict[tuple[str, str], list[Operator]] = defaultdict(list)
    for declared in OPS:
        found[declared.domain, declared.op_type].append(declared)
    return {key: tuple(sorted(ops, key=lambda o: -o.since)) for key, ops in found.items()}


VARIANTS = _index()
"""Operators by (domain, operator type), the newest schema version first."""


@frozen
class OperatorInfo:
    """A supported operator, as `ep-nnapi ops` prints it.

    since       the first opset of this variant
    operations  the NNAPI operations that it can lower to, those nearest to its lowering first
    level       the lowest feature level that has any of them, or its own one: no lower one takes it
    types       the NNAPI types that the nearest of them take as data
    summary     the first line of the operator's docstring
    """

    op_type: str
    domain: str
    since: int
    operations: tuple[str, ...]
    level: int
    types: tuple[str, ...]
    summary: str


def ops() -> tuple[OperatorInfo, ...]:
    """Return the supported operators, sorted by name."""
    return tuple(map(_info, sorted(OPS, key=lambda o: (o.domain, o.op_type, o.since))))


@cache
def operations(op: Operator) -> Reachable:
    """Return the NNAPI operations that the operator can lower to, as `reachable` does."""
    # takes longer than a session should wait
    from ep_nnapi.operators.lib.reachable import reachable

    return reachable(VARIANTS["", op.equivalent][0].lower if op.equivalent else op.lower)


def _info(op: Operator) -> OperatorInfo:
    found = operations(op)
    nearest = [row for distance, row in found if distance == found[0][0]]
    rows = nearest if found[0][0] == 0 else [row for _, row in found]
    codes = {t.types["T"] for row in nearest for t in row.typings if "T" in t.types}
    return OperatorInfo(
        op.op_type,
        op.domain,
        op.since,
        tuple(row.name for _, row in found),
        min(row.level for row in rows),
        tuple(code.name.removeprefix("TENSOR_") for code in sorted(codes)),
        op.doc.strip().split("\n", maxsplit=1)[0],
    )
