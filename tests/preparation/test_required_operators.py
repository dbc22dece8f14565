"""required_operators.config: what ONNX Runtime's own tool writes for the same models."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.preparation.required_operators import merged
from models import zoo
from tests.preparation.test_pipeline import SIZES

FEW = ("mlp", "kws_dscnn")
Lines = list[str]


def written(folder: Path, names: Sequence[str]) -> Path:
    folder.mkdir()
    for name in names:
        onnx.save(zoo.MODELS[name](size=SIZES.get(name)), folder / f"{name}.onnx")
    return folder


def lines(path: Path) -> Lines:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def theirs(models: Path, out: Path, *arguments: str) -> dict[str, Lines]:
    """Output of ONNX Runtime's converter, by the file's name."""
    shutil.copytree(models, out)
    command = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", str(out)]
    command += ["--target_platform", "arm", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return {p.name: lines(p) for p in out.glob("*.config")}


def ours(models: Path, out: Path, **options: object) -> dict[str, Lines]:
    assert not ep_nnapi.prepare(models, out, verify=False, **options).failed
    return {p.name: lines(p) for p in out.glob("*.config")}


def are_the_same(names: Sequence[str], folder: Path) -> None:
    models = written(folder / "in", names)
    fixed = theirs(models, folder / "fixed", "--optimization_style", "Fixed")
    assert ours(models, folder / "a", optimization_level="all") == fixed
    types = ("--optimization_style", "Fixed", "--enable_type_reduction")
    typed = theirs(models, folder / "typed", *types)
    assert ours(models, folder / "b", optimization_level="all", enable_type_reduction=True) == typed
    recorded = theirs(models, folder / "recorded", "--optimization_style", "Runtime")
    given = {"optimization_level": "all", "optimization_style": "runtime"}
    (own,) = ours(models, folder / "c", **given).items()
    assert own[0] in recorded
    assert merged([*own[1], *recorded[own[0]]]) == own[1]  # nothing that theirs has is missing


def test_operators_are_those_of_onnx_runtimes_tool(tmp_path: Path) -> None:
    are_the_same(FEW, tmp_path)


@pytest.mark.long
def test_operators_of_the_zoo_are_those_of_onnx_runtimes_tool(tmp_path: Path) -> None:
    are_the_same(list(zoo.MODELS), tmp_path)
