"""Comparison of prepared models with the original, and its tolerances."""

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind
from ep_nnapi.diagnostics.verdict import LessAccurate, differences_of
from ep_nnapi.options.table import Options
from ep_nnapi.preparation.job import Verification
from ep_nnapi.preparation.verify import compare, read_recorded, record
from models import zoo
from tests.onnx_graph import model_of, parsed
from tests.preparation.fresh import original
from tests.preparation.test_batch import tiny


def test_a_model_is_equal_to_itself(tmp_path: Path) -> None:
    path, recorded = tiny(tmp_path / "a.onnx"), tmp_path / "recorded.npz"
    assert record(path, Verification(), (), recorded) is None  # by the kind of each output
    (found,) = compare(path, recorded, Options()).differences
    assert found.tolerance == TOLERANCES[OutputKind.FLOAT32]
    assert found.relative <= 1e-6  # sums of four products, in another order


def test_another_model_is_not(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.npz"
    record(tiny(tmp_path / "a.onnx"), Verification(), (), recorded)
    found = compare(tiny(tmp_path / "b.onnx", 1), recorded, Options())
    assert found.less_accurate is LessAccurate.NNAPI
    assert found.negative


def ends_in(path: Path, kind: onnx.ValueInfoProto, *nodes: onnx.NodeProto) -> Path:
    """A model of one number x, and an output."""
    made = model_of(nodes, {"x": ()}, {})
    made.graph.output.append(kind)
    onnx.save(made, path)
    return path


def test_numbers_and_sequences_are_compared(tmp_path: Path) -> None:
    """A tensor without dimensions, and each element of a sequence."""
    number = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    neg, both = helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["n"])
    several = helper.make_node("SequenceConstruct", ["x", "n"], ["y"])
    for path, names in (
        (ends_in(tmp_path / "a.onnx", number, neg), ["y"]),
        (ends_in(tmp_path / "b.onnx", sequence, both, several), ["y[0]", "y[1]"]),
    ):
        record(path, Verification(), (), tmp_path / "recorded.npz")
        found = compare(path, tmp_path / "recorded.npz", Options()).differences
        assert [(d.output, d.absolute) for d in found] == [(name, 0.0) for name in names]


def test_what_cannot_be_compared_says_the_way_out(tmp_path: Path) -> None:
    text = "(string[2] x) => (string[2] y) { y = Identity (x) }"
    onnx.save(parsed(text), tmp_path / "a.onnx")
    with pytest.raises(ep_nnapi.ModelError, match=r"x is tensor\(string\).*; --no-verify prepares"):
        ep_nnapi.prepare(tmp_path / "a.onnx", tmp_path / "out")
    assert ep_nnapi.prepare(tmp_path / "a.onnx", tmp_path / "out", verify=False).models[0].outputs


def test_a_tolerance_that_is_given_is_the_tolerance(tmp_path: Path) -> None:
    path = tiny(tmp_path / "a.onnx")
    assert record(path, Verification(tolerance=0.5), (), tmp_path / "recorded.npz") == 0.5


@pytest.mark.parametrize(
    "name", ["mlp", pytest.param("transformer_encoder", marks=pytest.mark.long)]
)
def test_quantized_layers_need_be_no_nearer_than_onnx_runtimes_own(name: str, tmp_path: Path):
    """Fused and unfused, its layers round apart; in a deep network the steps add up."""
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    model, path = zoo.quantized(name, "u8s8"), tmp_path / "a.onnx"
    onnx.save(model, path)
    recorded = tmp_path / "recorded.npz"
    tolerance = record(path, Verification(), (), recorded)
    (feeds,) = read_recorded(recorded).feeds
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    pair = [original(model, feeds, level)], [original(model, feeds)]
    own = max(d.relative for d in differences_of(*pair))
    least = TOLERANCES[OutputKind.QUANTIZED]
    assert tolerance == (pytest.approx(2 * own) if 2 * own > least else None)


def test_random_numbers_are_said_not_to_be_compared(shows, tmp_path: Path) -> None:
    """Their difference is no difference of the prepared model, so the table has none."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    draw = helper.make_node("RandomNormalLike", ["x"], ["r"])
    path = ends_in(tmp_path / "a.onnx", y, draw, helper.make_node("Relu", ["r"], ["y"]))
    printed = shows("prepare", path, "-o", tmp_path / "out", "--tolerance", "0")
    assert "a.ort: y cannot be compared, being made of random numbers" in printed
    assert printed.splitlines()[1].split()[-2:] == ["-", "a.ort"]
