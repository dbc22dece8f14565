"""Large models: weights in other files, what is too large to be saved, and peak memory."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from bench.prepare import cost
from ep_nnapi.preparation.external_data import external_data_of
from ep_nnapi.preparation.job import Format
from tests.litert.needs import LITERT


def weights(name: str, shape: tuple[int, ...], **place: str) -> TensorProto:
    """A tensor whose bytes are elsewhere."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in place.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def layers(path: Path, count: int, size: int) -> Path:
    """Products of square matrices, which are zeros in a file of a folder within the folder."""
    file = path.parent / "data" / "deep" / "weights.bin"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.truncate(4 * count * size * size)  # takes no place on the disk
    name, each = str(file.relative_to(path.parent)), 4 * size * size
    nodes = []
    for i in range(count):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"x{i + 1}"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, size])],
        [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, [1, size])],
        [
            weights(f"w{i}", (size, size), location=name, offset=str(i * each), length=str(each))
            for i in range(count)
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    )
    return path


FORMATS = [pytest.param(f, marks=LITERT if f is Format.TFLITE else ()) for f in Format]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_too_large_is_refused_at_once(form: Format, tmp_path: Path) -> None:
    # eight matrices of 2**28 bytes: one byte more than a signed number of 32 bits can count
    model = layers(tmp_path / "in" / "large.onnx", 8, 1 << 13)
    sentence = r"2\.15 GB with its weights, and .* at most 2\.15"
    with pytest.raises(ep_nnapi.ModelError, match=sentence):
        ep_nnapi.prepare(model, tmp_path / "out", format=form)
    assert not list((tmp_path / "out").glob("*.o*"))


def test_bytes_elsewhere_are_counted(tmp_path: Path) -> None:
    """As stated; without a length all that follows the offset; never more than there is."""
    (tmp_path / "w").write_bytes(bytes(100))
    tensors = [
        weights("a", (5,), location="w", offset="10", length="20"),
        weights("b", (15,), location="w", offset="40"),
        weights("c", (99,), location="w", offset="90", length="400"),
        weights("d", (5,), location="absent", length="20"),
        weights("e", (5,), location="w", length="no number"),
    ]
    graph = helper.make_graph([], "g", [], [], tensors)
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    found = external_data_of(path)
    assert found.bytes == 20 + 60 + 10
    assert found.files == (tmp_path / "absent", tmp_path / "w")


@pytest.mark.parametrize("data", [b"", b"location of nothing"])
def test_what_is_no_model_has_nothing_elsewhere(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert external_data_of(path).files == ()


def test_weights_in_a_folder_below_are_found(tmp_path: Path) -> None:
    """They are among the sources, so that a change of them is noticed."""
    model = layers(tmp_path / "in" / "m.onnx", 2, 16)
    first = ep_nnapi.prepare(model, tmp_path / "out").models[0]
    assert set(first.sources) == {"m.onnx", "data/deep/weights.bin"}
    assert ep_nnapi.prepare(model, tmp_path / "out").models[0].skipped
    np.full(512, 0.5, np.float32).tofile(model.parent / "data" / "deep" / "weights.bin")
    assert not ep_nnapi.prepare(model, tmp_path / "out").models[0].skipped
    saved = onnx.load(model)
    assert len(saved.graph.initializer[0].raw_data) == 1024


@pytest.mark.long
def test_peak_memory_is_at_most_twice_that_of_onnx_runtime(tmp_path: Path) -> None:
    """On 268 MB, of which each tool holds several copies; libraries are not what decides."""
    model = layers(tmp_path / "in" / "m.onnx", 4, 1 << 12)
    tool = (sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort")
    fixed = ("--optimization_style", "Fixed", "--output_dir", str(tmp_path / "theirs"))
    theirs = cost(*tool, *fixed, str(model.parent)).memory
    ours = (sys.executable, "-m", "ep_nnapi", "prepare", str(model), "-o")
    forms = [f for f in Format if f is not Format.TFLITE or find_spec("ai_edge_litert")]
    for given in (*(("--format", form) for form in forms), ("--no-verify",)):
        mine = cost(*ours, str(tmp_path / "-".join(given)), *given).memory
        assert mine <= 2 * theirs, f"{given}: {mine:.0f} MB, ONNX Runtime's tool {theirs:.0f} MB"
