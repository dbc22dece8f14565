"""Properties of models that decide how their outputs are compared."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind, OutputTraits, traits_of
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_graph import model_of, nodes_of


def model(
    text: str, dtype: type = np.float32, tensors: dict[str, np.ndarray] | None = None
) -> bytes:
    nodes = nodes_of(text)
    ends = {"x": (dtype, (2, 3))}, {nodes[-1].output[0]: None}
    return model_of(nodes, *ends, tensors or {}, 21, ir_version=10).SerializeToString()


RELU = "y = Relu (x)"


def test_a_float_model_has_none() -> None:
    traits = traits_of(model(RELU))
    assert not any((traits.quantized, traits.half, traits.steps, traits.boxes))


def test_half_by_an_input_an_initializer_a_cast_or_the_caller() -> None:
    assert traits_of(model(RELU, dtype=np.float16)).half
    assert traits_of(model(RELU, tensors={"w": np.zeros(1, np.float16)})).half
    assert traits_of(model("h = Cast <to = 10> (x) y = Relu (h)")).half
    assert traits_of(model(RELU), half=True).half
    assert not traits_of(model("y = Cast <to = 1> (x)")).half


SCALES = {"s": np.array([0.5, 0.25], np.float32), "z": np.zeros(2, np.uint8)}
QDQ = "q = QuantizeLinear <axis = 0> (x, s, z) d = DequantizeLinear <axis = 0> (q, s, z)"


@pytest.mark.parametrize(
    ("last", "step"), [("Transpose", 0.5), ("Identity", 0.5), ("Relu", 0.5), ("Exp", None)]
)
def test_the_step_of_an_output_that_is_dequantized_last(last: str, step: float | None) -> None:
    """Its largest scale; operators that only move elements or drop negative ones keep it."""
    traits = traits_of(model(f"{QDQ} y = {last} (d)", tensors=SCALES))
    assert traits.quantized
    assert traits.steps == ({} if step is None else {"y": step})


@pytest.mark.parametrize("last", ["Sigmoid", "HardSigmoid", "Tanh"])
def test_outputs_of_a_sigmoid(last: str) -> None:
    found = traits_of(model(f"s = {last} (x) y = Identity (s)"))
    assert found.up_to_one == ({"y"} if last != "Tanh" else frozenset())


def test_a_step_that_is_in_a_file_of_external_data(tmp_path: Path) -> None:
    proto = onnx.load_from_string(model(QDQ, tensors=SCALES))
    path = tmp_path / "m.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="w", size_threshold=0)
    assert traits_of(str(path)).steps == {"d": 0.5}


def test_a_quantized_operator_in_a_subgraph_counts() -> None:
    then, other = (f"{name} () => (float[2, 3] d) {{ {QDQ} }}" for name in ("then", "other"))
    text = f"y = If (c) <then_branch = {then}, else_branch = {other}>"
    assert traits_of(model(text, tensors={**SCALES, "c": np.array(True)})).quantized


def test_outputs_behind_a_suppression_are_detections() -> None:
    text = "kept = NonMaxSuppression (x, x)"
    assert traits_of(model(f"{text} y = Cast <to = 1> (kept)")).boxes == {"y"}
    assert traits_of(model(f"{text} {RELU}")).boxes == frozenset()


@pytest.mark.parametrize(
    ("op_type", "attributes", "random"),
    [
        ("RandomNormalLike", "", {"y"}),
        ("Bernoulli", "", {"y"}),
        ("RandomNormalLike", "<seed = 1.0>", set()),
        ("Dropout", "", set()),
    ],
)
def test_outputs_of_random_numbers_without_a_seed(op_type, attributes, random) -> None:
    text = f"r = {op_type} {attributes} (x) y = Mul (x, r)"
    assert traits_of(model(text)).random == random


@pytest.mark.parametrize(("name", "quantized"), [(b"QLinearConv", True), (b"Conv", False)])
def test_ort_files_are_quantized_if_they_name_such_an_operator(name, quantized, tmp_path):
    data = b"\x1c\0\0\0ORTM" + b"\0" * 40 + name + b"\0" * 40
    assert traits_of(data).quantized is quantized
    path = tmp_path / "model.ort"
    path.write_bytes(data)
    assert traits_of(str(path)).quantized is quantized


def test_an_ort_file_has_the_steps_of_its_model(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.ort")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model(f"{QDQ} y = Identity (d)", tensors=SCALES)
    session_of(content, options)
    for given in (options.optimized_model_filepath, content):
        assert traits_of(given).steps == {"y": 0.5}


# Kinds of outputs: which property of a model decides, and the tolerance of each kind


def test_every_kind_has_a_tolerance() -> None:
    assert set(TOLERANCES) == set(OutputKind)


@pytest.mark.parametrize(
    ("traits", "dtype", "kind"),
    [
        (OutputTraits(), np.float32, OutputKind.FLOAT32),
        (OutputTraits(), np.float64, OutputKind.FLOAT32),
        (OutputTraits(), np.float16, OutputKind.FLOAT16),
        (OutputTraits(half=True), np.float32, OutputKind.FLOAT16),
        (OutputTraits(), np.int64, OutputKind.INTEGER),
        (OutputTraits(half=True), np.bool_, OutputKind.INTEGER),
        (OutputTraits(quantized=True), np.float32, OutputKind.QUANTIZED),
        (OutputTraits(quantized=True), np.uint8, OutputKind.QUANTIZED),
        (OutputTraits(quantized=True, boxes=frozenset("y")), np.float32, OutputKind.BOXES),
        (OutputTraits(boxes=frozenset("z")), np.float32, OutputKind.FLOAT32),
        (OutputTraits(quantized=True, random=frozenset("y")), np.float32, OutputKind.RANDOM),
    ],
)
def test_kind(traits: OutputTraits, dtype: type, kind: OutputKind) -> None:
    assert traits.kind("y", np.zeros(2, dtype)) is kind
