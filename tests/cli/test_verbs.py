"""Networks through every verb of the command line, as a new user would try them."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest

from models import zoo
from models.quantized import quantized
from tests.cli.command import DONE, NEGATIVE
from tests.end_to_end.sessions import EXAMPLES, Example
from tests.end_to_end.test_zoo import SMALL, built
from tests.html_report.models import embedded

pytestmark = pytest.mark.long
Command = Callable[..., tuple[int, str, str]]
OUTPUTS = {"tune": "settings.json", "prepare": "prepared.onnx", "fix": "fixed.onnx"}
VERBS: Mapping[str, tuple[str, ...]] = {
    "check": (),
    "report": (),
    "listing": (),
    "run": ("--no-latency",),
    "compare": (),
    "tune": ("--seconds", "1"),
    "prepare": (),
    "fix": (),
}


def assert_every_verb_works(cli: Command, model: Path, folder: Path) -> None:
    """What the verbs print agrees, and what they write is there."""
    found = {verb: _found(cli, verb, model, folder) for verb in VERBS}
    report = found["check"]
    assert found["report"]["report"] == report
    assert embedded((folder / "report").read_text(encoding="utf-8"))["report"] == report
    expected = [len(c["nodes"]) for c in report["clusters"]]
    assert [len(c["nodes"]) for c in found["listing"]] == expected
    assert found["run"]["report"]["taken"] == report["taken"]
    wanted = {d["output"] for d in found["run"]["differences"]}
    assert {o["output"] for o in found["compare"]["outputs"]} == wanted
    assert found["tune"]["best"] in {c["name"] for c in found["tune"]["candidates"]}
    # fix supposes nothing of INT64 inputs, which sessions check in each run
    assert found["fix"]["before"]["taken"] <= report["taken"]
    for verb in ("tune", "prepare"):
        assert (folder / OUTPUTS[verb]).stat().st_size
    assert (folder / OUTPUTS["fix"]).exists() == found["fix"]["written"]
    code, out, err = cli("run", folder / OUTPUTS["prepare"], "--no-latency")
    assert code == DONE, out + err


def _found(cli: Command, verb: str, model: Path, folder: Path) -> dict[str, object]:
    """The JSON that the verb prints; its exit code is 0, or 1 if `fix` finds nothing to do."""
    output = ["-o", folder / OUTPUTS.get(verb, verb)]
    given = output if verb in ("report", *OUTPUTS) else []
    code, out, err = cli(verb, model, *VERBS[verb], *given, "--json")
    assert out, f"{verb}: {err}"
    data = json.loads(out)
    nothing_to_fix = verb == "fix" and not data["written"]
    assert code == (NEGATIVE if nothing_to_fix else DONE), f"{verb}: {code}\n{out}\n{err}"
    return data


OTHERS = [name for name in zoo.MODELS if name not in SMALL and name != "vgg_small"]
# One classifier and one network with pictures as outputs stand for those of convolutions: each
# takes most of a minute.
CONVOLUTIONAL = ["mobilenet_v2", "segmentation"]


@pytest.mark.parametrize("name", zoo.MODELS)
def test_float_networks(cli: Command, name: str, tmp_path: Path):
    onnx.save(built(name, published=False), tmp_path / "model.onnx")
    assert_every_verb_works(cli, tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize("name", [*CONVOLUTIONAL, *OTHERS])
def test_quantized_networks(cli: Command, name: str, tmp_path: Path):
    onnx.save(quantized(name, "u8s8", size=SMALL.get(name)), tmp_path / "model.onnx")
    assert_every_verb_works(cli, tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize("example", EXAMPLES)
def test_files(cli: Command, example: Example, tmp_path: Path):
    model = Path(shutil.copy(example.path, tmp_path / "model.onnx"))
    assert_every_verb_works(cli, model, tmp_path)
