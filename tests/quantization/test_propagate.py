"""Quantization over values, groups of operators, and ONNX Runtime's own QDQ cases."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ep_nnapi
from ep_nnapi.cli.check import show_report
from ep_nnapi.graph.value import Quantization
from ep_nnapi.quantization.propagate import propagate_quantization
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import Qdq, model
from tests.onnx_graph import graph_of

U8: q.Scale = (0.02, 100)


SCALES = {"s": np.float32(0.02), "z": np.uint8(100), "s2": np.float32(0.03), "z2": np.uint8(90)}
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def test_quantization_spreads_through_what_moves_elements():
    """x -Q-> a -Transpose-> b -MaxPool-> c -DQ-> y: b has what Q says and DQ says."""
    text = """a = QuantizeLinear (x, s, z) b = Transpose <perm = [0, 1, 3, 2]> (a)
        c = MaxPool <kernel_shape = [2, 2]> (b) y = DequantizeLinear (c, s, z)"""
    built = model(text, {"x": (1, (1, 1, 4, 4))}, {"y": TensorProto.FLOAT}, SCALES)
    view = propagate_quantization(graph_of(built))
    found = {v.name: v.quantization for n in view.nodes for v in n.outputs if v is not None}
    assert found["b"] == Quantization((np.float32(0.02),), (100,))


IN, OUT = "da = DequantizeLinear (a, s, z)", "y = QuantizeLinear (active, s, z)"


def grouped(text: str, outputs, inputs="a") -> list[tuple[str, int]]:
    """Operator and number of members of each node once groups are formed."""
    given = dict.fromkeys(inputs, (TensorProto.UINT8, (3, 4)))
    view = propagate_quantization(graph_of(model(text, given, outputs, SCALES)))
    return [(n.op_type, len(n.originals)) for n in view.nodes]


def test_a_group_is_operator_activation_and_all_that_is_quantized_around():
    text = f"{IN} db = DequantizeLinear (b, s2, z2) sum = Add (da, db) active = Relu (sum) {OUT}"
    assert grouped(text, {"y": TensorProto.UINT8}, "ab") == [("Add", 5)]


def test_a_float_that_leaves_ungroups():
    outputs = {"y": TensorProto.UINT8, "active": TensorProto.FLOAT}
    found = grouped(f"{IN} active = Relu (da) {OUT}", outputs)
    assert [size for _, size in found] == [1, 1, 1]


def test_one_dequantization_may_be_read_twice():
    text = f"{IN} square = Mul (da, da) y = QuantizeLinear (square, s2, z2)"
    assert grouped(text, {"y": TensorProto.UINT8}) == [("Mul", 3)]


def test_numbers_need_no_quantization():
    """Values that are no floats, such as indexes, leave a group unchanged."""
    found = grouped(f"{IN} y = ArgMax <axis = 1> (da)", {"y": TensorProto.INT64})
    assert found == [("ArgMax", 2)]


def test_dequantized_weights_are_constants():
    """Weights alone are quantized: their group computes in floats, and nothing at run time."""
    rng = np.random.default_rng(3)
    text = "dw = DequantizeLinear <axis = 1> (w, ws, wz) y = MatMul (x, dw)"
    constants = {
        "w": rng.integers(-127, 128, (8, 6)).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, 6).astype(np.float32),
        "wz": np.zeros(6, np.int8),
    }
    built = model(text, {"x": (1, (2, 8))}, {"y": TensorProto.FLOAT}, constants)
    report = ep_nnapi.check(built.SerializeToString())
    assert (report.taken, len(report.clusters)) == (2, 1)
    feeds = {"x": rng.normal(size=(2, 8)).astype(np.float32)}
    got, want = q.on_nnapi(built, feeds)[0], q.on_cpu(built, feeds)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # sums of float32 reordered


@pytest.mark.parametrize(("count", "axis"), [(5, 1), (7, 1), (0, 1), (6, 2), (6, -3)])
def test_scales_of_another_number_than_the_axis_has_are_refused(count, axis):
    """ONNX's inference does not check scales."""
    text = f"dw = DequantizeLinear <axis = {axis}> (w, ws, wz) y = MatMul (x, dw)"
    constants = {
        "w": np.zeros((8, 6), np.int8),
        "ws": np.ones(count, np.float32),
        "wz": np.zeros(count, np.int8),
    }
    built = model(text, {"x": (1, (2, 8))}, {"y": TensorProto.FLOAT}, constants)
    (refused,) = ep_nnapi.check(built.SerializeToString()).rejections
    assert refused.detail.startswith("w has conflicting or no quantization parameters")


def test_a_tensor_read_in_two_ways_is_refused():
    text = "a = QuantizeLinear (x, s, z) b = Transpose (a) y = DequantizeLinear (b, s2, z2)"
    built = model(text, {"x": (1, (3, 4))}, {"y": TensorProto.FLOAT}, SCALES)
    report = ep_nnapi.check(built.SerializeToString())
    (refused,) = report.rejections
    assert (refused.op_type, refused.reason) == ("Transpose", "QUANTIZATION")
    assert "does not requantize" in refused.detail
    feeds = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
    np.testing.assert_array_equal(q.on_nnapi(built, feeds)[0], q.on_cpu(built, feeds)[0])


def test_scales_that_are_computed_are_refused():
    text = "a = QuantizeLinear (x, r, z) y = DequantizeLinear (a, r, z)"
    built = model(text, {"x": (1, (3, 4)), "r": (1, ())}, {"y": TensorProto.FLOAT}, SCALES)
    found = {(r.op_type, r.reason) for r in ep_nnapi.check(built.SerializeToString()).rejections}
    assert found == {(QUANTIZE, "CONSTANT"), (DEQUANTIZE, "CONSTANT")}


def test_a_refused_group_names_its_operator_in_one_line():
    g = Qdq("u8")
    x = g.input((1, 4, 6, 6), U8)
    built = g.model(g.group("Exp", [x], U8))
    report = ep_nnapi.check(built.SerializeToString(), feature_level=2)
    details = {r.op_type: r.detail for r in report.rejections}
    assert set(details) == {"Exp", QUANTIZE, DEQUANTIZE}
    assert "\n" not in details["Exp"]
    assert details[QUANTIZE].startswith("in the QDQ group of f1_0, which is rejected: ")


def test_what_is_not_computed_as_quantized_is_noted(capsys: pytest.CaptureFixture[str]):
    """A Relu is; an Elu is computed in floats, a Sigmoid of other scales than NNAPI's anew."""
    g = Qdq("u8")
    x = g.group("Relu", [g.input((1, 4, 6, 6), U8)], U8)
    x = g.group("Elu", [x], U8)
    report = ep_nnapi.check(g.model(g.group("Sigmoid", [x], (0.005, 3))).SerializeToString())
    assert not report.rejections
    expected = [("Elu", "computed"), ("Sigmoid", "requantized")]
    assert [(n.op_type, n.detail.split(" ", 1)[0]) for n in report.notes] == expected
    show_report(report)
    printed = capsys.readouterr().out
    assert "Taken with a note: 2 nodes" in printed
    assert "computed in floats: " in printed


def test_notes_name_what_the_model_names():
    g = Qdq("u8")
    given = [g.input((1, 4, 6, 6), U8), *(g.constant(np.ones(4, np.float32)) for _ in range(2))]
    x = g.group("Elu", [g.group("InstanceNormalization", given, U8)], U8)
    x = g.group("LayerNormalization", [x, g.constant(np.ones(6, np.float32))], U8)
    notes = ep_nnapi.check(g.model(x).SerializeToString()).notes
    assert [n.detail for n in notes] == [
        "computed in floats: it takes several operations, each of which rounds",
        "computed in floats: q2 is quantized; Elu is computed in floats",
        "computed in floats: q5 is quantized; LayerNormalization is computed in floats",
    ]


# ONNX Runtime's own cases, including the 16 that it has disabled.


def one(op_type: str, shape: tuple[int, ...], out: q.Scale = U8, *constants, **attributes):
    def build() -> onnx.ModelProto:
        g = Qdq("u8")
        given = [g.input(shape, U8), *(g.constant(c) for c in constants)]
        return g.model(g.group(op_type, given, out, **attributes))

    return build


def two(op_type: str, shape: tuple[int, ...], out: q.Scale):
    def build() -> onnx.ModelProto:
        g = Qdq("u8")
        return g.model(g.group(op_type, [g.input(shape, U8), g.input(shape, (0.03, 90))], out))

    return build


def conv() -> onnx.ModelProto:
    rng, g = np.random.default_rng(5), Qdq("u8")
    w = g.weights(rng.integers(0, 256, (1, 1, 3, 3)).astype(np.uint8), np.float32(0.01), 118)
    b = g.weights(np.array([250], np.int32), np.float32(0.01 * 0.02))
    return g.model(g.group("Conv", [g.input((1, 1, 5, 5), U8), w, b], (0.05, 120)))


def gemm(trans_b: int, bias: bool) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        g = Qdq("u8")
        given = [g.input((2, 2), U8)]
        given.append(g.weights(np.array([[1, 2], [128, 255]], np.uint8), np.float32(0.3), 100))
        if bias:
            given.append(g.weights(np.array([7, -3], np.int32), np.float32(0.3 * 0.02)))
        return g.model(g.group("Gemm", given, (0.5, 128), transB=trans_b))

    return build


def matmul() -> onnx.ModelProto:
    g = Qdq("u8")
    w = g.weights(np.array([[1, 2], [128, 255]], np.uint8), np.float32(0.3), 100)
    return g.model(g.group("MatMul", [g.input((2, 2), U8), w], (0.5, 128)))


def concat(scales: Sequence[q.Scale]) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        g = Qdq("u8")
        shapes = ((1, 6, 36), (1, 6, 8), (1, 6, 2))
        given = [g.input(shape, s) for shape, s in zip(shapes, scales, strict=True)]
        return g.model(g.group("Concat", given, U8, axis=2))

    return build


def resize(
    shape: tuple[int, ...], to: Sequence[int], **attributes
) -> Callable[[], onnx.ModelProto]:
    none = np.zeros(0, np.float32)
    return one("Resize", shape, U8, none, none, np.array(to, np.int64), mode="linear", **attributes)


ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric"}
CASES: dict[str, tuple[Callable[[], onnx.ModelProto], int]] = {  # and the lowest level
    "Conv": (conv, 1),
    "ResizeNCHW": (resize((1, 3, 64, 64), (1, 3, 32, 32), **ASYMMETRIC), 3),
    "ResizeNHWC": (resize((1, 64, 64, 3), (1, 32, 32, 3), **ASYMMETRIC), 3),
    "ResizeDefaultNCHW": (resize((1, 3, 64, 64), (1, 3, 32, 32)), 3),
    "ResizeDefaultNHWC": (resize((1, 64, 64, 3), (1, 32, 32, 3)), 3),
    "AveragePool": (one("AveragePool", (1, 3, 32, 32), U8, kernel_shape=[3, 3]), 1),
    "Add": (two("Add", (1, 23, 13, 13), (0.04, 110)), 1),
    "Mul": (two("Mul", (1, 23, 13, 13), (0.1, 110)), 1),
    "Transpose": (one("Transpose", (1, 3, 32, 32), perm=[0, 3, 1, 2]), 2),
    "Reshape": (one("Reshape", (1, 3, 64, 64), U8, np.array([1, 64, 64, 3], np.int64)), 1),
    "Softmax": (one("Softmax", (1, 32), (1 / 256, 0), axis=1), 1),
    "SoftmaxUnsupportedOutputScaleAndZp": (one("Softmax", (1, 32), (0.002, 1), axis=1), 1),
    "Concat": (concat([U8] * 3), 1),
    "ConcatUnsupportedInputScalesAndZp": (concat([U8, (0.03, 90), (0.01, 128)]), 1),
    "Gemm": (gemm(1, bias=True), 1),
    "GemmNoTransB": (gemm(0, bias=True), 1),
    "GemmNoBias": (gemm(1, bias=False), 1),
    "MatMul": (matmul, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_of_onnx_runtime(name: str):
    """Taken whole from the lowest level on, left whole below it; right at each."""
    build, lowest = CASES[name]
    built = build()
    feeds = q.stored(built)
    want = q.on_cpu(built, feeds)
    for level in {max(1, lowest - 1), lowest, 8}:
        report = ep_nnapi.check(built.SerializeToString(), feature_level=level)
        assert report.taken == (report.nodes if level >= lowest else 0), level
        assert q.apart(q.on_nnapi(built, feeds, feature_level=level), want) <= 1  # ties


def test_case_of_internal_uint8():
    """Q -> Concat -> MaxPool -> Transpose -> DQ, of 0, 256 and 512."""
    constants = {"s": np.float32(256), "z": np.uint8(0)}
    text = """a = QuantizeLinear (x, s, z) b = Concat <axis = 2> (a, a)
        c = MaxPool <kernel_shape = [2, 2]> (b) d = Transpose <perm = [0, 1, 3, 2]> (c)
        y = DequantizeLinear (d, s, z)"""
    built = model(text, {"x": (1, (1, 1, 1, 3))}, {"y": TensorProto.FLOAT}, constants)
    report = ep_nnapi.check(built.SerializeToString())
    assert (report.taken, len(report.clusters)) == (5, 1)
    feeds = {"x": np.array([0, 256, 512], np.float32).reshape(1, 1, 1, 3)}
    np.testing.assert_array_equal(q.on_nnapi(built, feeds)[0], q.on_cpu(built, feeds)[0])
