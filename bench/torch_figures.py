"""Renewal of the tables of docs/pytorch.md, from runs of `torch` and `torch_speed` on this machine.

PyTorch, torchvision and torchao have to be installed.

python -m bench torch_figures
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from bench import torch, torch_speed
from bench.torch_speed import Form
from ep_nnapi.costs import this_machine

PAGE = Path(__file__).parents[1] / "docs" / "pytorch.md"
BEGIN, END = "<!-- {}: python -m bench torch_figures -->", "<!-- end of {} -->"
NEEDED = ("torch", "torchvision", "torchao")


def overhead(found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The lines of the table of what a call takes beyond its session."""
    yield "| µs beyond `session.run` | one ReLU | Dynamo's own | 60 parameters | Dynamo's own |"
    yield "|---|---|---|---|---|"
    for road in torch.ROADS:
        cells = [f"{time:.0f}" for times in found.values() for time in torch.beyond(times, road)]
        name = road if road == "frozen" else f"`{road}`"
        yield f"| {name} | {' | '.join(cells)} |"


def speed(found: Mapping[Form, float]) -> Iterator[str]:
    """The lines of the table of what MobileNetV2 takes."""
    roads = ("eager PyTorch", "NNAPI")
    yield "| | threads | eager PyTorch | NNAPI (`to_nnapi`) |"
    yield "|---|---|---|---|"
    for precision, threads in dict.fromkeys((form.precision, form.threads) for form in found):
        times = " | ".join(f"{found[Form(precision, road, threads)]:.1f} ms" for road in roads)
        yield f"| {precision} | {threads} | {times} |"


def renewed(page: str, tables: Mapping[str, Iterator[str]]) -> str:
    """The page with other tables between their marks."""
    for name, lines in tables.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        table = "\n".join(lines)
        body = f"Measured on {this_machine()}.\n\n{table}"
        page = f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Measures and writes the page."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"docs/pytorch.md stays as it is without {', '.join(missing)}")
        return
    tables = {
        "overhead": overhead(torch.figures()),
        "speed": speed(torch_speed.figures()),
    }
    PAGE.write_text(renewed(PAGE.read_text(), tables))
    print(f"renewed {PAGE}")


if __name__ == "__main__":
    main()
