"""HTML fragments of reports, for notebooks and for the page of `ep-nnapi report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ep_nnapi.errors import ADVICE, Rejection, by_kind, kind_row
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


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of escaped texts; of more than 200 rows the first 200 and the number of others."""
    listed = list(rows)
    head = "".join(f'<th scope="col">{text(c)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(str(cell))}</td>" for cell in row) + "</tr>"
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


def folded(rejections: Sequence[Rejection]) -> Mapping[str, list[list[Rejection]]]:
    """Rejections by reason, the most frequent first, and within it by operator and kind."""
    counts = Counter(r.reason for r in rejections)
    return {
        str(reason): by_kind(r for r in rejections if r.reason is reason)
        for reason, _ in counts.most_common()
    }


def rejection_tables(rejections: Sequence[Rejection]) -> str:
    """One table for each reason, with advice; the page adds single nodes when a row is opened."""
    return "".join(
        f'<div class="reason" data-reason="{text(reason)}">'
        + table(
            ("operator", "count", "nodes", "detail"),
            map(kind_row, kinds),
            f"{reason} ({sum(map(len, kinds))}): {ADVICE[kinds[0][0].reason]}",
        )
        + "</div>"
        for reason, kinds in folded(rejections).items()
    )
