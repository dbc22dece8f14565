"""docs/moving-on.md: its command prints what is shown, its runtimes are those of the advice."""

from pathlib import Path

import pytest

from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics import advice
from ep_nnapi.diagnostics.advice import advise
from tests.documents import commands

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "moving-on.md"


@pytest.mark.parametrize(("command", "output"), commands(DOCUMENT))
def test_commands_print_what_is_shown(
    command: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(advice, "is_installed", lambda: False)
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out == output


def test_the_table_has_the_alternatives_and_their_sources() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")][2:]
    alternatives = advise(str(ROOT / "models" / "digits.onnx"))
    assert [row.split("|")[1].strip() for row in rows] == [each.name for each in alternatives]
    assert all(f"<{each.source}>" in row for each, row in zip(alternatives, rows, strict=True))
