"""Stock Polygraphy compares this provider with the CPU provider, as docs/hosts.md says."""

import sys
from pathlib import Path

import onnx
import pytest

from models.zoo import MODELS
from tests.documents import blocks
from tests.programs import ran

pytest.importorskip("polygraphy", reason="Polygraphy is not installed: pip install polygraphy")

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits.onnx"


def polygraphy(wrapper: Path, *arguments: object) -> str:
    command = [sys.executable, wrapper, "run", *arguments]
    done = ran(*command, timeout=300)
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", ["digits", "mobilenet_v2", "squeezenet1_1"])
def test_three_models_pass(name: str, tmp_path: Path):
    """Within 1e-3 of the scores: float32 sums in another order, over up to 53 layers."""
    (wrapper,) = [b for b in blocks(ROOT / "docs" / "hosts.md", "python") if "polygraphy" in b]
    (tmp_path / "wrapper.py").write_text(wrapper)
    model = DIGITS
    if name != "digits":
        model = tmp_path / "model.onnx"
        onnx.save(MODELS[name](size=96), model)
    results, run = tmp_path / "cpu.json", tmp_path / "wrapper.py"
    polygraphy(run, model, "--onnxrt", "--providers", "cpu", "--save-outputs", results)
    providers = ("--providers", "NnapiPluginExecutionProvider", "cpu")
    tolerance = ("--atol", "1e-3", "--rtol", "1e-3")
    said = polygraphy(run, model, "--onnxrt", *providers, "--load-outputs", results, *tolerance)
    assert "Pass Rate: 100.00%" in said
