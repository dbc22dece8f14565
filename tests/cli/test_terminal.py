"""Names in models and of files are foreign text: on a terminal they stay within their line."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from onnx import helper

from ep_nnapi.cli.terminal import line, progress, table
from tests.cli.command import DIGITS, NEGATIVE, UNUSABLE, saved

NAME = "a\x1b[2J\nb\u202e"
"""Clears the screen, begins a line, and turns the direction of what follows."""
ESCAPED = "a\\x1b[2J\\nb\\u202e"


def harmless(text: str) -> bool:
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize("op", ["Relu", "Acosh"], ids=["taken", "refused"])
def test_check_escapes_the_name_of_a_node(shows, tmp_path: Path, op: str):
    model = saved(tmp_path, [helper.make_node(op, ["x"], ["y"], name=NAME)])
    out = shows("check", model)
    assert harmless(out)
    assert ESCAPED in out


def test_json_has_the_name_itself(cli, tmp_path: Path):
    model = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"], name=NAME)])
    _, out, _ = cli("check", model, "--json")
    assert harmless(out)
    assert json.loads(out)["clusters"][0]["nodes"] == [NAME]


def test_run_escapes_the_name_of_an_output(shows, tmp_path: Path):
    model = saved(tmp_path, "y = Relu (x)", output=NAME)
    out = shows("run", model)
    assert harmless(out)
    assert ESCAPED in out


@pytest.mark.parametrize("verb", ["check", "run", "compare", "prepare", "listing"])
def test_messages_escape_the_name_of_a_file(cli, tmp_path: Path, verb: str):
    out = ("-o", tmp_path / "out") if verb == "prepare" else ()
    code, _, err = cli(verb, tmp_path / NAME, *out)
    assert code == UNUSABLE
    assert err.count("\n") == 1
    assert harmless(err)
    assert ESCAPED in err


def test_prepare_escapes_the_names_of_files_that_fail_and_that_do_not(cli, tmp_path: Path):
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(DIGITS, models / f"{NAME}.onnx")
    (models / f"{NAME}_broken.onnx").write_text("no model")
    code, out, err = cli("prepare", models, "-o", tmp_path / "out")
    assert code == NEGATIVE
    assert harmless(out + err)
    assert f"{ESCAPED}_broken.onnx: " in err


def test_unknown_arguments_are_escaped(cli):
    code, _, err = cli("check", DIGITS, f"--{NAME}")
    assert code == UNUSABLE
    assert err.count("\n") == 1
    assert harmless(err)


def test_columns_are_as_wide_as_what_is_shown(capsys: pytest.CaptureFixture[str]):
    table(("name", "n"), [("\x1b", "1"), ("é", "2"), ("\udcff", "3")])
    line("one\nline", error=True)
    out, err = capsys.readouterr()
    assert out == "name    n\n\\x1b    1\né       2\n\\udcff  3\n"
    assert err == "one\\nline\n"


COLUMNS = ("device", "largest error", "operators", "from")
ROWS = [
    ("host-cpu", "1.5e-06", "2 Conv, 2 MaxPool, 1 Reshape", "first to MatMul_10/MatMulAddFusion")
]
GAPS = 2 * 3


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The lines of the table on a terminal of so many columns."""

    def on(width: int) -> list[str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(width))
        table(COLUMNS, ROWS)
        plain = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        return [text.rstrip() for text in plain.splitlines()]

    return on


def in_columns(lines: list[str]) -> list[str]:
    """The text of each column below the head, without spaces, its lines joined."""
    (rule,) = (i for i, text in enumerate(lines) if set(text) == {"\u2500"})
    starts = [lines[rule + 1].index(each[:2]) for each in ROWS[0]]
    ends = [*(start - 1 for start in starts[1:]), None]
    return [
        "".join("".join(text[a:b].split()) for text in lines[rule + 1 :])
        for a, b in zip(starts, ends, strict=True)
    ]


def test_a_table_that_fits_is_not_wrapped(drawn):
    width = len("host-cpu") + len("largest error") + len(ROWS[0][2]) + len(ROWS[0][3]) + GAPS
    head, rule, row = drawn(width)
    assert head.split("  ")[0] == "device"
    assert row == "  ".join((ROWS[0][0], ROWS[0][1].ljust(13), *ROWS[0][2:]))
    assert len(rule) == width


NARROWEST = len("host-cpu") + len("largest") + 10 + 10 + GAPS


@pytest.mark.parametrize("width", [NARROWEST, 50, 60, 80])
def test_a_table_that_is_wrapped_loses_nothing(drawn, width: int):
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    assert in_columns(lines) == ["".join(each.split()) for each in ROWS[0]]


def test_a_terminal_that_is_too_narrow_has_a_line_for_each_cell(drawn):
    """Columns vanished, or were a letter wide."""
    names = ("device       ", "largest error", "operators    ", "from         ")
    assert drawn(NARROWEST - 1) == [f"{n}  {c}" for n, c in zip(names, ROWS[0], strict=True)]


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]):
    """A pipe gets nothing, so that the work is not asked to report either."""
    with progress("models") as advance:
        assert advance is None
    assert capsys.readouterr() == ("", "")


def test_progress_counts_on_stderr(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress("models") as advance:
        assert advance is not None
        advance(1, 2)
        advance(2, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "2/2" in err
    assert "models" in err
