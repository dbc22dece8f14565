"""Renewal of docs/engines.svg, of docs/good_to_know.md, from the last run of bench.engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from bench.engines import HOST_CPU, OUTPUT, THREADS, Row

PICTURE = Path(__file__).parents[1] / "docs" / "engines.svg"
COLORS = dict(zip(THREADS, ("#4477aa", "#66ccee"), strict=True))
WIDTH, LEFT, UNIT, BAR, TOP = 720, 190, 130, 7, 44
"""Pixels: of the picture, before the bars, of a ratio of 1, of a bar, above the bars."""
GREATEST = 3.6
"""Greatest ratio that is drawn at its length."""


def text(x: float, y: float, content: str, **attributes: str) -> str:
    """Text in a gray that is legible on white and on black."""
    given = {"fill": "#808080", **attributes}
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in given.items())
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(content)}</text>'


def bars(rows: Sequence[Row], y: int) -> list[str]:
    """One model: its name, and a bar with its ratio for each number of threads."""
    parts = [text(LEFT - 8, y + 11, rows[0].model, text_anchor="end")]
    for n, row in enumerate(rows):
        long, top = min(row.ratio, GREATEST) * UNIT, y + n * (BAR + 1)
        fill = COLORS[row.threads]
        parts += [
            f'<rect x="{LEFT}" y="{top}" width="{long:.0f}" height="{BAR}" fill="{fill}"/>',
            text(LEFT + long + 4, top + BAR, f"{row.ratio:.2f}", font_size="9"),
        ]
    return parts


def picture(machine: str, rows: Sequence[Row]) -> str:
    """The ratios of all models as SVG; the line is the CPU provider."""
    ours = [row for row in rows if row.device == HOST_CPU]
    parts = [
        text(8, 14, f"Latency of the CPU provider over that of host-cpu, on {machine}"),
        *(
            text(LEFT + 90 * i, 34, f"{threads} thread{'s' * (threads > 1)}", fill=color)
            for i, (threads, color) in enumerate(COLORS.items())
        ),
    ]
    y = TOP
    for model in dict.fromkeys(row.model for row in ours):
        parts += bars([row for row in ours if row.model == model], y)
        y += len(THREADS) * (BAR + 1) + 5
    parts.append(f'<path d="M{LEFT + UNIT} {TOP - 6}V{y}" stroke="#cc3333"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 6}" font-size="12"'
        ' font-family="sans-serif">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    """Writes the picture."""
    found = json.loads(OUTPUT.read_text())
    PICTURE.write_text(picture(found["machine"], [Row(**row) for row in found["rows"]]))
    print(PICTURE)


if __name__ == "__main__":
    main()
