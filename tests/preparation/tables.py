"""The tables of docs/prepare.md that preparation fills."""

from collections import Counter
from pathlib import Path

from ep_nnapi.options.table import parse
from ep_nnapi.preparation.job import COMBINATIONS, Level
from ep_nnapi.preparation.ort_export import checked_at

DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
LEVELS = (Level.BASIC, Level.EXTENDED, Level.NNAPI_AWARE)
TARGETS = ("builtin-nnapi", "ep-nnapi")


def combinations() -> list[tuple[str, ...]]:
    """Valid combinations: format, style, levels, further option, written files."""
    return [
        (
            c.format,
            c.style,
            ", ".join(c.levels),
            f"`--{c.extra.replace('_', '-')}`" if c.extra else "",
            c.result,
        )
        for c in COMBINATIONS
    ]


def levels() -> list[tuple[str, ...]]:
    """Nodes of digits.onnx that each level leaves to NNAPI."""
    return [left_by(DIGITS, level, target) for level in LEVELS for target in TARGETS]


def left_by(model: Path, level: Level, target: str) -> tuple[str, ...]:
    """Level, target, nodes, clusters, and what runs on the CPU."""
    report = checked_at(model, Level(level), parse({"target": target}))
    left = Counter(r.op_type for r in report.rejections)
    on_cpu = ", ".join(f"{n} {op}" for op, n in left.items()) or "none"
    return (level, target, str(report.nodes), str(len(report.clusters)), on_cpu)
