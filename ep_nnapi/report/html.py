"""HTML fragments of reports, for notebooks and for the page of `ep-nnapi report`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ep_nnapi.errors import ADVICE, Rejection
from ep_nnapi.nnapi.errors import printable

CLUSTER_COLUMNS = ("cluster", "nodes", "device", "border bytes", "operators", "from")
"""Columns of a table of clusters, as the terminal shows them."""
_SHOWN = 200  # rows of one table; a notebook keeps them in its file


def text(given: str) -> str:
    """Escape a text for HTML, quotes and unprintable characters included.

    >>> text('</script> & "x"')
    '&lt;/script&gt; &amp; &quot;x&quot;'
    """
    return escape(printable(given), quote=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of escaped texts; of more than 200 rows the first 200 and the number of others."""
    listed = list(rows)
    head = "".join(f'<th scope="col">{text(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>"
        for row in listed[:_SHOWN]
    )
    more = len(listed) - _SHOWN
    if more > 0:
        body += f'<tr><td colspan="{len(columns)}">and {more} more</td></tr>'
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(texts: Iterable[str]) -> str:
    """Each text as a paragraph, escaped."""
    return "".join(f"<p>{text(each)}</p>" for each in texts)


def folded(rejections: Iterable[Rejection]) -> Mapping[str, list[list[Rejection]]]:
    """Rejections by reason, the most frequent first, and within it by operator and kind."""
    reasons: dict[str, dict[tuple[str, str], list[Rejection]]] = {}
    for r in rejections:
        kinds = reasons.setdefault(str(r.reason), {})
        kinds.setdefault((r.op_type, r.kind or r.detail), []).append(r)
    counts = {reason: sum(map(len, kinds.values())) for reason, kinds in reasons.items()}
    return {
        reason: list(reasons[reason].values())
        for reason in sorted(reasons, key=lambda reason: -counts[reason])
    }


def rejection_row(same: Sequence[Rejection]) -> tuple[str, str, str, str]:
    """Operator, number of nodes, first and last node, and detail of rejections of one kind."""
    first, last = same[0], same[-1]
    nodes = first.node if len(same) == 1 else f"{first.node} to {last.node}"
    detail = first.detail if len({r.detail for r in same}) == 1 else first.kind or first.detail
    return first.op_type, str(len(same)), nodes, detail


def rejection_tables(rejections: Sequence[Rejection]) -> str:
    """One table for each reason, with advice."""
    return "".join(
        table(
            ("operator", "count", "nodes", "detail"),
            map(rejection_row, kinds),
            f"{reason} ({sum(map(len, kinds))}): {ADVICE[kinds[0][0].reason]}",
        )
        for reason, kinds in folded(rejections).items()
    )


def summary(sentence: str, *parts: str) -> str:
    """A sentence above fragments of HTML."""
    return f"<div><p>{text(sentence)}</p>{''.join(parts)}</div>"
