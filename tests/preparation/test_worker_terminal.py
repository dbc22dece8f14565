"""Progress of `prepare`: a bar on a terminal, plain lines to a pipe."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.preparation.test_worker_pool import fine
from tests.programs import ran

ROOT = Path(__file__).parents[2]
NAMES = ("first", "second", "third")


def command(tmp_path: Path) -> list[str]:
    for name in NAMES:
        fine(tmp_path / "in" / f"{name}.onnx")
    (tmp_path / "in" / "broken.onnx").write_bytes(b"no model")
    verb = [sys.executable, "-m", "ep_nnapi", "prepare", str(tmp_path / "in")]
    return [*verb, "-o", str(tmp_path / "out"), "--no-verify"]


def on_terminal(given: list[str]) -> tuple[str, int]:
    """All that a command writes to a terminal of its own, and its exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        given, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while block := os.read(ours, 1 << 16):
                written += block
        except OSError:  # how a terminal says that nobody has it open any more
            pass
        os.close(ours)
    return written.decode(), process.returncode


def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    """A bar with the numbers of models done and of all, which is gone when the table comes."""
    written, code = on_terminal(command(tmp_path))
    assert code == 1
    bars, _, table = written.rpartition("\x1b[2K")
    assert "0/4" in bars
    assert "4/4" in bars
    assert "/4" not in table
    for name in NAMES:
        assert re.search(rf"{name}\.onnx\s+prepared\s+1\s+1 of 1", table)
    assert "ep-nnapi: broken.onnx: " in table


def test_a_pipe_gets_plain_lines(tmp_path: Path) -> None:
    done = ran(*command(tmp_path), status=1, timeout=300)
    assert "\x1b" not in done.stdout + done.stderr
    rows = done.stdout.splitlines()
    assert rows[0].split() == ["model", "status", "clusters", "taken", "difference", "output"]
    expected = [["broken.onnx", "failed"], *([f"{name}.onnx", "prepared"] for name in NAMES)]
    assert [row.split()[:2] for row in rows[1:5]] == expected
    wanted = [["ep-nnapi", "broken.onnx"]]
    assert [line.split(": ")[:2] for line in done.stderr.splitlines()] == wanted
