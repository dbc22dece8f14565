"""Comparison of flatbuffers with the original: a wrong one is found, and a missing name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import parse
from ep_nnapi.preparation.job import Verification
from ep_nnapi.preparation.verify import record
from ep_nnapi.preparation.verify_tflite import compare_flatbuffers
from ep_nnapi.preparation.write_tflite import EXPOSED, save_tflite
from tests.litert.needs import LITERT
from tests.preparation.test_batch import tiny

pytestmark = LITERT


def written(model: Path, folder: Path, **options: object) -> Path:
    """The folder with the flatbuffers of a model."""
    folder.mkdir()
    save_tflite(model, folder / "out.tflite", parse(options), folder)
    return folder


def test_the_same_model_is_equal(tmp_path: Path) -> None:
    model, recorded = tiny(tmp_path / "a.onnx"), tmp_path / "recorded.npz"
    record(model, Verification(), {}, recorded)
    (found,) = compare_flatbuffers(written(model, tmp_path / "w"), recorded, {}).differences
    assert found.relative <= 1e-6  # sums of four products, in another order


def test_another_model_is_not(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.npz"
    record(tiny(tmp_path / "a.onnx"), Verification(), {}, recorded)
    other = written(tiny(tmp_path / "b.onnx", 1), tmp_path / "w")
    assert compare_flatbuffers(other, recorded, {}).negative


def test_names_that_were_not_recorded_are_refused(tmp_path: Path) -> None:
    """A cluster's border without the model that exposes it."""
    model, recorded = tiny(tmp_path / "a.onnx"), tmp_path / "recorded.npz"
    record(model, Verification(), {}, recorded)
    folder = tmp_path / "w"
    with np.load(recorded) as arrays:
        kept = {k: a for k, a in arrays.items() if not k.startswith("in.")}
    np.savez(recorded, **kept)
    with pytest.raises(ModelError, match="has an input x that the original does not have"):
        compare_flatbuffers(written(model, folder), recorded, {})
    assert not (folder / EXPOSED).exists()
