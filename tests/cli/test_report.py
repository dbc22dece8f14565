"""`report --receipt` shows what ran where, what gave way before it, and why."""

import json
from pathlib import Path

import pytest

from ep_nnapi.cli.main import main

DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
CLUSTER = {
    "name": "nnapi_0",
    "device": "cpu",
    "runs": 3,
    "device_runs": 2,
    "fallbacks": [],
    "alternative": "cpu",
    "tried": [
        {"alternative": "nnapi:4 on npu", "reason": "npu declines operation 3", "runs": 1},
        {"alternative": "nnapi:1 on npu", "reason": "it did not compile within 30 s", "runs": 0},
    ],
}


def test_a_receipt_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    receipt = tmp_path / "receipt.json"
    receipt.write_text(json.dumps({"format": "ep-nnapi receipt", "clusters": [CLUSTER]}))
    words = ["report", str(DIGITS), "-o", str(tmp_path / "page.html"), "--no-levels"]
    assert main([*words, "--receipt", str(receipt)]) == 0
    said = capfd.readouterr().out
    assert "nnapi_0  cpu      2         3   nnapi:4 on npu: npu declines operation 3" in said
    assert "nnapi:1 on npu: it did not compile within 30 s" in said
    assert main([*words, "--json", "--receipt", str(receipt)]) == 0
    assert json.loads(capfd.readouterr().out)["receipt"]["clusters"] == [CLUSTER]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": "ep-nnapi receipt"}'])
def test_other_files_are_refused(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    receipt = tmp_path / "receipt.json"
    receipt.write_text(text)
    words = ["report", str(DIGITS), "-o", str(tmp_path / "page.html"), "--no-levels"]
    assert main([*words, "--receipt", str(receipt)]) == 2
    assert "is no receipt; a session with the option receipt writes one" in capfd.readouterr().err
    assert not (tmp_path / "page.html").exists()
