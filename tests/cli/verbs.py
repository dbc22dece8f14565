"""Every verb of the command line on one model, as a new user would try them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cli.command import DONE, NEGATIVE
from tests.html_report.models import embedded

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
    assert [len(c["nodes"]) for c in found["listing"]] == [
        len(c["nodes"]) for c in report["clusters"]
    ]
    assert found["run"]["report"]["taken"] == report["taken"]
    assert {o["output"] for o in found["compare"]["outputs"]} == {
        d["output"] for d in found["run"]["differences"]
    }
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
