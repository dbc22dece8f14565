"""A cluster's ONNX nodes as a model of their own on the CPU provider."""

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ep_nnapi.provider import fallback
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.devices import fallback_device
from ep_nnapi.provider.fallback import CpuModel, is_on_reference, reference_executor
from tests.faulty import FaultyDevice, compiler_of
from tests.provider.test_compiled_cluster import WANTED, X, runner
from tests.provider.test_compiler import lowered
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


def test_it_has_as_many_threads_as_it_is_given():
    stored = CpuModel.write(SUM, 3)
    stored.run({"x": np.zeros(SHAPE, np.float32)}, ["y"])
    assert stored._session is not None
    assert stored._session.get_session_options().intra_op_num_threads == 3


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
    fallback._remove(tmp_path, owner=0)
    assert tmp_path.is_dir()


# The fallback on nnapi-reference: what it computes, and whose fallback it is not


def test_it_computes_a_clusters_model():
    bound = runner(FaultyDevice())
    cluster = bound.cluster
    found = np.zeros_like(X)
    run = reference_executor(cluster.compiler, cluster.lowered.model, bound.border)
    run([X], lambda *_: found, lambda: None)
    np.testing.assert_allclose(found, WANTED, rtol=1e-6)  # exp and tanh


def test_it_is_that_of_the_host_runtimes_reference_device_only():
    compiler = runner(FaultyDevice()).cluster.compiler
    assert not is_on_reference(compiler)
    runtime, device = fallback_device()
    assert is_on_reference(replace(compiler, runtime=runtime, device=device))


# Clusters that a device declines: whether for their size


@pytest.mark.parametrize(
    ("code", "too_large"),
    [
        ("OUT_OF_MEMORY", True),
        ("RESOURCE_EXHAUSTED_TRANSIENT", True),
        ("RESOURCE_EXHAUSTED_PERSISTENT", True),
        ("OP_FAILED", False),
        ("BAD_DATA", False),
    ],
)
def test_codes_of_models_that_are_too_large(code: str, too_large: bool):
    device = FaultyDevice(refuses_above=1, code=code)
    with pytest.raises(Declined) as caught:
        compiler_of(device).compile(lowered(device))
    assert caught.value.too_large is too_large
    assert caught.value.names == frozenset()
    assert "faulty did not compile its cluster" in caught.value.detail
    assert f"ANEURALNETWORKS_{code}" in caught.value.detail
