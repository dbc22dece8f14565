"""Prepared models for a bundle: what belongs to them, and which are refused."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ep_nnapi.bundling.prepared_model import read_prepared_model
from ep_nnapi.diagnostics.inputs import InputSpec
from ep_nnapi.epcontext.contexts import write_checksum
from ep_nnapi.nnapi.errors import ModelError
from models.quantized import quantized
from tests.native.build import ROOT
from tests.native.sessions import prepared

DIGITS = ROOT / "models" / "digits.onnx"


@pytest.fixture
def model(digits: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(digits.parent, tmp_path / "model")
    return tmp_path / "model" / digits.name


def test_one_cluster(model: Path) -> None:
    (weights,) = model.parent.glob("*.weights")
    found = read_prepared_model(model)
    assert found.files == (model.name, weights.name)
    assert (found.feature_level, found.cpu_nodes) == (1, 0)
    assert found.inputs == (InputSpec("image", np.dtype(np.float32), (1, 1, 8, 8)),)


def test_embedded_weights(tmp_path: Path) -> None:
    model = prepared(onnx.load(DIGITS), tmp_path, embed=True)
    assert read_prepared_model(model).files == (model.name,)


def test_the_highest_level_of_all_clusters(tmp_path: Path) -> None:
    model = prepared(quantized("digits", "s8s8"), tmp_path, exclude="MaxPool")
    found = read_prepared_model(model)
    assert found.inputs is None
    assert found.feature_level == 4
    assert found.cpu_nodes > 0


def with_external_data(model: Path, location: str) -> None:
    """Adds a tensor whose bytes are in another file, as ONNX Runtime writes large models."""
    proto = onnx.load(model)
    tensor = numpy_helper.from_array(np.ones(4000, np.float32), "extra")
    onnx.external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    proto.graph.initializer.append(tensor)
    model.write_bytes(proto.SerializeToString())
    (model.parent / location).write_bytes(bytes(16000))
    write_checksum_anew(model)


def write_checksum_anew(model: Path) -> None:
    proto = onnx.load(model, load_external_data=False)
    for entry in proto.metadata_props:
        if entry.key == "ep_nnapi.sha256":
            entry.value = "0" * 64
    model.write_bytes(proto.SerializeToString())
    write_checksum(model)


def test_external_data_of_the_nodes_on_the_cpu(model: Path) -> None:
    with_external_data(model, "more.data")
    assert read_prepared_model(model).files[2:] == ("more.data",)
    (model.parent / "more.data").unlink()
    with pytest.raises(ModelError, match=r"more.data: no such file; it holds weights of the mod"):
        read_prepared_model(model)


def test_external_data_elsewhere_is_refused(model: Path) -> None:
    with_external_data(model, "../more.data")
    with pytest.raises(ModelError, match=r"'../more.data' are outside of its folder"):
        read_prepared_model(model)


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no compiled cluster; make one with ep-nnapi prepare"):
        read_prepared_model(DIGITS)
    with pytest.raises(ModelError, match=r"nowhere.onnx: no such file"):
        read_prepared_model(tmp_path / "nowhere.onnx")
    with pytest.raises(ModelError, match="is a directory; give one"):
        read_prepared_model(tmp_path)
    (tmp_path / "text.onnx").write_text("no model at all")
    with pytest.raises(ModelError, match=r"text.onnx is no ONNX model"):
        read_prepared_model(tmp_path / "text.onnx")


def test_a_changed_model_is_refused(model: Path) -> None:
    proto = onnx.load(model)
    proto.doc_string = "changed"
    onnx.save(proto, model)
    with pytest.raises(ModelError, match="is corrupt or was changed; prepare the model again"):
        read_prepared_model(model)


def test_missing_weights_are_named(model: Path) -> None:
    (weights,) = model.parent.glob("*.weights")
    weights.unlink()
    with pytest.raises(ModelError, match=f"{weights.name}: no such file"):
        read_prepared_model(model)
