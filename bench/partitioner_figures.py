"""Renewal of docs/partitioner.md's table and docs/partitioner.svg from the last comparison.

`python -m bench partitioner` where torch is installed, then `python -m bench partitioner_figures`.
Times are relative to merging forward, which ran beside.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.partitioner_peers import DECLINED, OUTPUT, SEEDS

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "partitioner.md", DOCS / "partitioner.svg"
BEGIN, END = "<!-- figures: python -m bench partitioner_figures -->", "<!-- end of figures -->"
COLORS = {"forward": "#4477aa", "backward": "#66ccee", "waves": "#ee6677", "torch": "#aa3377"}
Row = Mapping[str, Mapping[str, float]]


def published_rows(results: Mapping[str, Row]) -> dict[str, Row]:
    """The cases of published graphs, whose names have their sizes."""
    return {name: row for name, row in results.items() if "(" in name}


def more(row: Row, way: str) -> float:
    """Bytes over those of `partition`, as a share."""
    return row[way]["bytes"] / row["partition"]["bytes"] - 1


def table(results: Mapping[str, Row]) -> Iterator[str]:
    """The lines of the table, with a sentence on what is proven."""
    rows = published_rows(results)
    proven = sum(int(row["partition"]["proven"]) for row in rows.values())
    yield f"Of these {SEEDS * len(rows)} partitions, {proven} are proven minimal."
    yield ""
    yield (
        "| graph (nodes) | declined | `partition` | time / forward's | forward | backward | waves"
        " | PyTorch's |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name, row in rows.items():
        graph, declined = name.rsplit(" ", 1)
        times = row["partition"]["seconds"] / row["forward"]["seconds"]
        own = f"{row['partition']['clusters']:,.0f} | {times:.1f}"
        cells = [
            f"{row[w]['clusters']:,.0f}, {more(row, w):+.1%}" if w in row else "–" for w in COLORS
        ]
        yield f"| {graph} | {declined} | {own} | {' | '.join(cells)} |"


def plot(results: Mapping[str, Row]) -> str:
    """Bars of the bytes that the simpler ways move more than `partition`, as SVG."""
    parts, y = [], 20
    for name, row in published_rows(results).items():
        parts.append(f'<text x="200" y="{y + 12}" text-anchor="end">{name}</text>')
        for way, color in COLORS.items():
            if way in row:
                share = more(row, way)
                parts.append(
                    f'<rect x="210" y="{y}" width="{1 + 220 * share:.1f}" height="6"'
                    f' fill="{color}"><title>{way} {share:+.1%}</title></rect>'
                )
                y += 7
        y += 8
    for i, (way, color) in enumerate(COLORS.items()):
        parts.append(f'<text x="{210 + 90 * i}" y="12" fill="{color}">{way}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{y}" font-size="12"'
        ' font-family="sans-serif">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    """Writes both files; not from a comparison without PyTorch, whose column would be lost."""
    results = json.loads(OUTPUT.read_text())
    if not any("torch" in row for row in published_rows(results).values()):
        sys.exit(f"{OUTPUT} has no figures of PyTorch's partitioner: install torch, compare again")
    text = "\n".join([BEGIN, "", *table(results), "", END])
    page = PAGE.read_text()
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: text, page, flags=re.DOTALL))
    PLOT.write_text(plot(results))
    print(f"{PAGE} and {PLOT} have the figures for {', '.join(f'{s:.0%}' for s in DECLINED)}")


if __name__ == "__main__":
    main()
