"""A cluster's ONNX nodes as a model of their own on the CPU provider."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx

from ep_nnapi.provider import cpu_fallback
from ep_nnapi.provider.cpu_fallback import CpuModel
from tests.provider.test_planner import SHAPE, model

SUM = model("Add x w -> a", "Neg a -> y", constants="w", outputs="a y")


def test_it_computes_the_outputs_that_are_asked_for():
    stored = CpuModel.write(SUM)
    x = np.full(SHAPE, 2, np.float32)
    for wanted in (["y"], ["a", "y"], ["y", "a"]):
        found = stored.run({"x": x}, wanted)
        want = {"a": x + 1, "y": -(x + 1)}
        for name, array in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(array, want[name])


def test_the_session_is_made_by_the_first_run(monkeypatch):
    made = []
    create = CpuModel._create_session
    monkeypatch.setattr(CpuModel, "_create_session", lambda m: made.append(m) or create(m))
    stored = CpuModel.write(SUM)
    assert made == []
    for _ in range(2):
        stored.run({"x": np.zeros(SHAPE, np.float32)}, ["y"])
    assert len(made) == 1


def test_large_constants_are_in_a_file_of_their_own():
    """From 1024 bytes on; onnx adds the size of a Python object (below 100) to that of the data."""
    for count, external in ((230, False), (256, True)):
        proto = onnx.ModelProto()
        proto.CopyFrom(SUM)
        weights = onnx.numpy_helper.from_array(np.ones(count, np.float32), "unused")
        proto.graph.initializer.append(weights)
        folder = CpuModel.write(proto)
        saved = onnx.load(folder.folder / "model.onnx", load_external_data=False)
        (found,) = (t for t in saved.graph.initializer if t.name == "unused")
        assert (found.data_location == onnx.TensorProto.EXTERNAL) is external


def test_the_folder_goes_with_the_model():
    stored = CpuModel.write(SUM)
    folder = stored.folder
    assert folder.is_dir()
    del stored
    gc.collect()
    assert not folder.exists()


def test_a_forked_child_leaves_the_folder(tmp_path: Path):
    """The parent still uses it: only the process that wrote it removes it."""
    cpu_fallback._remove(tmp_path, owner=0)
    assert tmp_path.is_dir()
