"""File names that no tool expects: one fails alone, or is written down escaped."""

from __future__ import annotations

from pathlib import Path

import pytest

import ep_nnapi
from tests.preparation.test_batch import statuses, tiny

NEWLINE, ESCAPES = "new\nline.onnx", "escape\x1b[31m.onnx"


def test_odd_names_in_a_directory(tmp_path: Path) -> None:
    for name in ("good.onnx", NEWLINE, ESCAPES):
        tiny(tmp_path / "in" / name)
    (tmp_path / "in" / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "in" / "empty.onnx").touch()
    (tmp_path / "in" / "\udcff.onnx").touch()
    done = ep_nnapi.prepare(tmp_path / "in", tmp_path / "out", verify=False)
    assert statuses(done) == {
        "good.onnx": "prepared",
        "loop.onnx": "failed",
        "empty.onnx": "failed",
        "\udcff.onnx": "failed",
        NEWLINE: "prepared",
        ESCAPES: "prepared",
    }
    assert [str(m.error).rpartition(": ")[2] for m in done.failed] == [
        "the file is empty",
        "no such file",
        "ONNX Runtime opens no file whose name is not UTF-8",
    ]
    lines = (tmp_path / "out" / "required_operators.config").read_text().splitlines()
    assert lines[1:4] == [r"# - escape\x1b[31m.ort", "# - good.ort", r"# - new\nline.ort"]
    assert all(line.count(";") == 2 for line in lines[4:])


def test_a_link_that_leads_to_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    with pytest.raises(ep_nnapi.ModelError, match=r"loop\.onnx: no such file"):
        ep_nnapi.prepare(tmp_path / "loop.onnx", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("a\0b", "a NUL character"), ("\udcff", "not UTF-8"), ("a" * 256, "File name too long")],
)
def test_a_name_that_no_model_may_have(name: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ep_nnapi.ModelError, match=sentence):
        ep_nnapi.prepare(tmp_path / f"{name}.onnx", tmp_path / "out")


def test_the_timeout_covers_reading_the_model(tmp_path: Path) -> None:
    """A sparse file, whose digest alone would take minutes."""
    with (tmp_path / "large.onnx").open("wb") as stream:
        stream.truncate(60 << 30)
    with pytest.raises(ep_nnapi.ModelError, match="it took longer than 1 seconds"):
        ep_nnapi.prepare(tmp_path / "large.onnx", tmp_path / "out", timeout=1)
