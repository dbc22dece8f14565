"""Models as LiteRT flatbuffers: whole ones, clusters, and what is left out."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import ep_nnapi
from ep_nnapi.litert import package
from ep_nnapi.litert.library import load
from ep_nnapi.litert.lowering import LOWERINGS
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.table import Options, parse
from ep_nnapi.preparation.job import Verification, job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.preparation.tflite import EXPOSED, compare_flatbuffers, save_tflite
from ep_nnapi.preparation.verify import record
from models import zoo
from tests.litert.needs import LITERT
from tests.onnx_graph import parsed
from tests.preparation.test_batch import tiny
from tests.provider.test_planner import SHAPE, model

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)
DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".tflite")


def saved(proto: onnx.ModelProto, folder: Path, **options: object) -> ep_nnapi.Report:
    source, scratch = folder / "source.onnx", folder / "scratch"
    scratch.mkdir()
    onnx.save(proto, source)
    return save_tflite(source, folder / "out.tflite", parse(options), scratch)


@LITERT
def test_a_whole_model_is_one_file_with_its_own_names(tmp_path: Path) -> None:
    proto = model("Add x w -> a", "Tanh a -> y", constants="w")
    report = saved(proto, tmp_path)
    assert report.taken == 2
    assert names(tmp_path) == ["out.tflite"]
    assert not (tmp_path / "scratch" / EXPOSED).exists()
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": X})
    found = load(tmp_path / "out.tflite").run({"x": X})
    np.testing.assert_allclose(found["y"], wanted, atol=1e-6)  # TANH in float32


@LITERT
def test_clusters_are_files_with_the_borders_names(tmp_path: Path) -> None:
    """Two clusters around a node that is excluded."""
    proto = model("Abs x -> a", "Mul a w -> b", "Add b w -> y", constants="w")
    saved(proto, tmp_path, exclude="Mul")
    assert names(tmp_path) == ["out_nnapi_0.tflite", "out_nnapi_1.tflite"]
    first, second = (load(tmp_path / name) for name in names(tmp_path))
    np.testing.assert_array_equal(first.run({"x": X})["a"], np.abs(X))
    assert second.inputs == ("b",)
    exposed = onnx.load(tmp_path / "scratch" / EXPOSED)
    assert {o.name for o in exposed.graph.output} == {"y", "a", "b"}


@LITERT
def test_what_litert_declines_is_a_rejection_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.delitem(LOWERINGS, (spec.ELU, spec.F32))  # what it does not take, no node needs
    report = saved(model("Abs x -> a", "Elu a -> y"), tmp_path)
    (found,) = report.rejections
    assert (found.node, found.op_type) == ("Elu_y", "Elu")
    assert found.detail == "litert declines ELU (LiteRT has no ELU of TENSOR_FLOAT32)"
    assert names(tmp_path) == ["out_nnapi_0.tflite"]


@LITERT
def test_nothing_to_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="NNAPI takes no node of this model"):
        saved(model("Abs x -> y"), tmp_path, exclude="Abs")
    assert names(tmp_path) == []


def test_without_the_extra_it_names_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'ep-nnapi\[litert\]'"):
        ep_nnapi.prepare(tiny(tmp_path / "a.onnx"), tmp_path / "out", format="tflite")
    assert not list((tmp_path / "out").glob("*"))


@LITERT
def test_prepare_verifies_and_skips_what_is_up_to_date(tmp_path: Path) -> None:
    for status in ("prepared", "up to date"):
        (entry,) = ep_nnapi.prepare(DIGITS, tmp_path, format="tflite").models
        assert (entry.status, list(entry.outputs)) == (status, ["digits.tflite"])
        (found,) = entry.differences
        assert found["relative"] <= 1e-6  # sums of float32 products in another order


@LITERT
def test_prepare_verifies_each_cluster(tmp_path: Path) -> None:
    out = tmp_path / "d.tflite"
    (entry,) = ep_nnapi.prepare(DIGITS, out, exclude="MaxPool").models
    assert list(entry.outputs) == [f"d_nnapi_{n}.tflite" for n in range(3)]
    assert len(entry.differences) == 3
    assert max(d["relative"] for d in entry.differences) <= 1e-5
    (entry,) = ep_nnapi.prepare(DIGITS, out).models
    assert names(tmp_path) == ["d.tflite"]  # those of the clusters are gone


@LITERT
def test_clusters_inside_control_flow_alone_are_refused_with_that_reason(tmp_path: Path) -> None:
    text = """(float[2,3] x, bool c) => (float[2,3] y) {
        y = If (c) <then_branch = t () => (float[2,3] a) { a = Abs (x) },
            else_branch = e () => (float[2,3] n) { n = Neg (x) }> }"""
    onnx.save(parsed(text), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="inside If, Loop or Scan"):
        ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / "out", format="tflite")


@LITERT
def test_initializers_that_a_session_may_override_are_constants(tmp_path: Path) -> None:
    proto = onnx.load(DIGITS)
    for weight in proto.graph.initializer:
        shape = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
        proto.graph.input.append(shape)
    onnx.save(proto, tmp_path / "d.onnx")
    (entry,) = ep_nnapi.prepare(tmp_path / "d.onnx", tmp_path / "out", format="tflite").models
    assert entry.error is None
    assert list(load(tmp_path / "out" / "d.tflite").inputs) == ["image"]


@LITERT
@pytest.mark.parametrize("scheme", ["u8u8", "u8s8", "s8s8"])
def test_quantized_models(tmp_path: Path, scheme: str) -> None:
    """Weights per tensor with zero points, and per channel."""
    proto = zoo.quantized("kws_dscnn", scheme, size=None)
    (entry,) = ep_nnapi.prepare(proto, tmp_path, format="tflite").models
    assert entry.error is None
    assert entry.report is not None
    assert not entry.report["rejections"]


pytestmark = LITERT


def written(model: Path, folder: Path, **options: object) -> Path:
    """The folder with the flatbuffers of a model."""
    folder.mkdir()
    save_tflite(model, folder / "out.tflite", parse(options), folder)
    return folder


def test_the_same_model_is_equal(tmp_path: Path) -> None:
    model, recorded = tiny(tmp_path / "a.onnx"), tmp_path / "recorded.npz"
    record(model, Verification(), (), recorded)
    (found,) = compare_flatbuffers(written(model, tmp_path / "w"), recorded, Options()).differences
    assert found.relative <= 1e-6  # sums of four products, in another order


def test_another_model_is_not(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.npz"
    record(tiny(tmp_path / "a.onnx"), Verification(), (), recorded)
    other = written(tiny(tmp_path / "b.onnx", 1), tmp_path / "w")
    assert compare_flatbuffers(other, recorded, Options()).negative


def test_names_that_were_not_recorded_are_refused(tmp_path: Path) -> None:
    """A cluster's border without the model that exposes it."""
    model, recorded = tiny(tmp_path / "a.onnx"), tmp_path / "recorded.npz"
    folder, other = tmp_path / "w", onnx.load(model)
    other.graph.input[0].name = other.graph.node[0].input[0] = "z"
    onnx.save(other, tmp_path / "b.onnx")
    record(tmp_path / "b.onnx", Verification(), (), recorded)
    with pytest.raises(ModelError, match="has an input x that the original does not have"):
        compare_flatbuffers(written(model, folder), recorded, Options())
    assert not (folder / EXPOSED).exists()


def basic_pitch() -> Path | None:
    """The folder with nmp.onnx and nmp.tflite: EP_NNAPI_BASIC_PITCH, or the package's."""
    found = find_spec("basic_pitch")
    package = Path(found.origin).parent / "saved_models" / "icassp_2022" if found else Path()
    folder = Path(os.environ.get("EP_NNAPI_BASIC_PITCH", package))
    return folder if (folder / "nmp.tflite").is_file() else None


@LITERT
@pytest.mark.long
@pytest.mark.skipif(
    basic_pitch() is None,
    reason="needs the package basic-pitch, or its files in EP_NNAPI_BASIC_PITCH",
)
def test_basic_pitch_computes_what_its_makers_flatbuffer_does(tmp_path: Path) -> None:
    """One network that its makers have written in both formats, from the same weights."""
    from ai_edge_litert.interpreter import Interpreter

    folder = basic_pitch()
    assert folder is not None
    audio = np.random.default_rng(0).uniform(-1, 1, (1, 43844, 1)).astype(np.float32)
    theirs = Interpreter(model_path=str(folder / "nmp.tflite"))
    theirs.allocate_tensors()
    theirs.set_tensor(theirs.get_input_details()[0]["index"], audio)
    theirs.invoke()
    (entering,) = onnx.load(folder / "nmp.onnx").graph.input
    name = entering.name
    job = job_of({"format": "tflite", "fix": {name: audio.shape}})
    save_prepared(folder / "nmp.onnx", tmp_path / "out.tflite", job)
    assert names(tmp_path) == ["out.tflite"]
    ours = load(tmp_path / "out.tflite").run({name: audio})
    for output in theirs.get_output_details():
        wanted = theirs.get_tensor(output["index"])
        assert np.std(wanted) > 0.01
        np.testing.assert_allclose(ours[output["name"]], wanted, rtol=0, atol=1e-5)
