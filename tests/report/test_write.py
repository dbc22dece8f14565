"""Files for other tools: all of a format, whole or not at all, never over the model."""

import json
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.report.model_explorer import collection, overlays
from ep_nnapi.report.netron import annotated
from ep_nnapi.report.write import Format, write_format
from tests.cli.command import DIGITS

REPORT = ep_nnapi.check(DIGITS)


def test_model_explorer(tmp_path: Path):
    found = write_format(Format.MODEL_EXPLORER, Path(DIGITS), REPORT, tmp_path / "g.json")
    contents = {p.name: json.loads(p.read_text(encoding="utf-8")) for p in found}
    assert contents == {"g.json": collection(REPORT, "digits.onnx")} | {
        f"g.{name}.json": data for name, data in overlays(REPORT).items()
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(contents)


def test_more_node_data_of_model_explorer(tmp_path: Path):
    values = {"error": {REPORT.graphs[0].outline[0].name: 0.5}}
    output = tmp_path / "g.json"
    found = write_format(Format.MODEL_EXPLORER, Path(DIGITS), REPORT, output, values)
    assert found[-1] == tmp_path / "g.error.json"
    written = json.loads(found[-1].read_text(encoding="utf-8"))
    assert written == overlays(REPORT, values)["error"]


def test_netron(tmp_path: Path):
    (path,) = write_format(Format.NETRON, Path(DIGITS), REPORT, tmp_path / "d.onnx")
    assert path.read_bytes() == annotated(Path(DIGITS), REPORT, tmp_path)
    onnx.checker.check_model(str(path))


@pytest.mark.parametrize("form", Format)
def test_a_folder_that_is_not_there(form: Format, tmp_path: Path):
    with pytest.raises(OptionError, match="cannot be written: No such file"):
        write_format(form, Path(DIGITS), REPORT, tmp_path / "none" / "file")


@pytest.mark.parametrize("form", Format)
def test_the_model_is_not_overwritten(form: Format, tmp_path: Path):
    (tmp_path / "link.onnx").symlink_to(DIGITS)
    with pytest.raises(OptionError, match="is the model itself"):
        write_format(form, Path(DIGITS), REPORT, tmp_path / "link.onnx")
