"""What each level leaves to NNAPI: ONNX Runtime's documentation, reproduced; docs/prepare.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ep_nnapi.cli import main
from ep_nnapi.job import COMBINATIONS
from ep_nnapi.staging import check_at

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "prepare.md"
MNIST = ROOT.parent / "shared" / "models" / "mnist.onnx"
MODELS = [
    pytest.param(ROOT / "models" / "digits.onnx", id="digits"),
    pytest.param(
        MNIST,
        id="mnist",
        marks=pytest.mark.skipif(not MNIST.exists(), reason="not part of the repository"),
    ),
]
LEVELS = ("basic", "extended", "nnapi-aware")
TARGETS = ("builtin-nnapi", "ep-nnapi")


def row(model: Path, level: str, target: str) -> tuple[str, ...]:
    report = check_at(model, level, target=target)
    left = Counter(r.op_type for r in report.rejections)
    on_cpu = ", ".join(f"{n} {op}" for op, n in left.items()) or "none"
    return (level, target, str(report.nodes), str(len(report.clusters)), on_cpu)


@pytest.mark.parametrize("model", MODELS)
def test_levels_do_what_the_documentation_says(model: Path) -> None:
    basic, extended, aware = (row(model, level, "builtin-nnapi")[2:] for level in LEVELS)
    assert basic == aware == ("8", "1", "none")
    assert extended == ("6", "2", "2 FusedConv")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", MODELS)
def test_check_shows_it(model: Path, level: str, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["--optimization-level", level, "--target", "builtin-nnapi"]
    assert main(["check", str(model), *given]) == 0
    printed = capfd.readouterr().out
    if level == "extended":
        assert "NNAPI takes 4 of 6 nodes in 2 clusters" in printed
        assert printed.count("\nFusedConv ") == 2
    else:
        assert "NNAPI takes 8 of 8 nodes in 1 cluster at" in printed


@pytest.mark.parametrize("model", MODELS)
def test_our_own_target_takes_fused_convolutions(model: Path) -> None:
    assert row(model, "extended", "ep-nnapi")[2:] == ("6", "1", "none")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tables() -> dict[str, str]:
    digits = ROOT / "models" / "digits.onnx"
    return {
        "combinations": table(
            ("format", "style", "levels", "also", "what is written"),
            [
                (
                    c.format,
                    c.style,
                    ", ".join(c.levels),
                    f"`--{c.extra.replace('_', '-')}`" if c.extra else "",
                    c.result,
                )
                for c in COMBINATIONS
            ],
        ),
        "levels": table(
            ("saved at", "target", "nodes", "clusters", "on the CPU"),
            [row(digits, level, target) for level in LEVELS for target in TARGETS],
        ),
    }


def filled(text: str) -> str:
    for name, lines in tables().items():
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)",
            lambda found, lines=lines: f"{found[1]}\n{lines}\n\n{found[2]}",
            text,
            flags=re.S,
        )
    return text


def test_the_tables_are_those_of_the_code() -> None:
    """If this fails: python -m tests.prepare.test_levels."""
    text = DOCS.read_text()
    assert text == filled(text)
    assert all(f"<!-- {name} -->" in text for name in tables())


if __name__ == "__main__":
    DOCS.write_text(filled(DOCS.read_text()))
