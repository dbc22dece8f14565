"""Printing of a report: tables of clusters, of notes, and of rejected nodes by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ep_nnapi.cli.terminal import line, table
from ep_nnapi.errors import ADVICE, FIX_ADVICE, SHAPE_ADVICE, TRIED, Note, Rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report.report import Report

_SOURCES = 3  # source lines that a row names


def report(found: Report) -> None:
    """Prints clusters, notes on their nodes, and rejected nodes with reasons."""
    line(f"{found.summary}.")
    if found.clusters:
        line(f"{found.minimality}.")
        line()
        rows = enumerate(found.clusters)
        table(
            ("cluster", "nodes", "device", "border bytes", "operators", "from"),
            (
                (str(i), str(len(c.nodes)), c.device, str(c.boundary_bytes), c.operators, c.ends)
                for i, c in rows
            ),
        )
    for text in found.substitutes:
        line(text)
    if found.notes:
        line()
        line(f"Taken with a note: {_nodes(len(found.notes))}")
        table(("operator", "count", "nodes", "note"), _folded(found.notes))
    if found.rejections:
        line()
        line(f"Left to the CPU: {_nodes(len(found.rejections))}")
        _rejections(found)


def _nodes(number: int) -> str:
    return f"{number} node" if number == 1 else f"{number} nodes"


def _rejections(found: Report) -> None:
    """Prints rejections by reason with advice, the most frequent reason first.

    Rejections that follow from the rejection of another node are only counted.
    """
    of_node = {r.node: r for r in found.rejections}
    causes = [r for r in found.rejections if not r.caused_by]
    follow = Counter(of_node[r.caused_by].reason for r in found.rejections if r.caused_by)
    counts = Counter(r.reason for r in causes)
    for reason, count in (counts + follow).most_common():
        of_reason = [r for r in causes if r.reason is reason]
        line()
        line(f"{reason} ({count}): {_advice(reason, of_reason, found.target)}")
        _table_of(of_reason)
        if follow[reason]:
            several = "follow" if follow[reason] > 1 else "follows"
            which = f"these {counts[reason]}" if counts[reason] > 1 else "this one"
            line(f"{follow[reason]} more {several} from {which}.")


def _table_of(found: Sequence[Rejection]) -> None:
    """Prints rejections by operator and kind; with source lines, if any of them has one."""
    sources = any(r.source for r in found)
    columns = ("operator", "count", "nodes", "detail", *(("source",) if sources else ()))
    table(columns, _folded(found, sources=sources))


def _sources(found: Iterable[Rejection | Note]) -> str:
    """The first few distinct source lines, and the number of the others."""
    lines = list(
        dict.fromkeys(str(r.source) for r in found if isinstance(r, Rejection) and r.source)
    )
    more = f" and {len(lines) - _SOURCES} more" if len(lines) > _SOURCES else ""
    return ", ".join(lines[:_SOURCES]) + more


def _advice(reason: Reason, refused: Sequence[Rejection], target: str) -> str:
    """Returns advice, and the name of another target that takes the nodes unchanged."""
    others = [r.accepted_by for r in refused if r.accepted_by]
    if not others:
        return _shape_advice(refused) if reason is Reason.SHAPE else ADVICE[reason]
    which = "it" if len(refused) == 1 else "them"
    if len(others) < len(refused):
        which = f"{len(others)} of them"
    advice = "replace the operator" if reason is Reason.OP else ADVICE[reason]
    return f"{advice} ({others[0]} takes {which}; {target} does not)"


def _shape_advice(refused: Sequence[Rejection]) -> str:
    """Returns advice to fix input sizes, for those of the nodes that this would or may repair."""
    tried = any(r.detail.endswith(TRIED) for r in refused)
    fixable = sum(r.detail.endswith((FIX_ADVICE, TRIED)) for r in refused)
    if not fixable:
        return SHAPE_ADVICE
    repairs = f", which {'may repair' if tried else 'repairs'} {fixable} of them"
    return ADVICE[Reason.SHAPE] + (repairs if tried or fixable < len(refused) else "")


def _folded(
    found: Iterable[Rejection | Note], *, sources: bool = False
) -> Iterable[tuple[str, ...]]:
    """Yields a row for each operator and kind of detail: count, first and last node, detail."""
    groups: dict[tuple[str, str], list[Rejection | Note]] = {}
    for each in found:
        groups.setdefault((each.op_type, each.kind or each.detail), []).append(each)
    for (op_type, kind), members in groups.items():
        first, last = members[0].node, members[-1].node
        nodes = first if len(members) == 1 else f"{first} to {last}"
        same = len({m.detail for m in members}) == 1
        row = (op_type, str(len(members)), nodes, members[0].detail if same else kind)
        yield (*row, _sources(members)) if sources else row
