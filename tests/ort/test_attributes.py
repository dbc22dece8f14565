"""Attributes as Python values: every type, other domains, and longer than the first buffer."""

import numpy as np
import onnx
import pytest
from onnx import helper

from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.sessions.cpu import session_of
from tests.ort.look import only
from tests.ort.models import graph, model, node, tensor


def test_attributes_of_every_type(look):
    """INT, INTS, FLOAT, STRING, TENSOR; FLOATS and STRINGS are of ONNX's ml domain."""
    fill = helper.make_tensor("value", onnx.TensorProto.INT64, [1], [7])
    nodes = [
        node("Conv", "x w", "c", strides=[2, 1], group=1, auto_pad="VALID"),
        node("LeakyRelu", "c", "l", alpha=0.25),
        node("ConstantOfShape", "s", "f", value=fill),
        node("Cast", "f", "g", to=1),
        node("Add", "l g", "y"),
    ]
    inputs = [tensor("x", (1, 1, 5, 5)), tensor("s", (1,), np.int64)]
    outputs = [tensor("y", (1, 1, 2, "n"))]
    seen = look(model(nodes, inputs, outputs, {"w": np.ones((1, 1, 3, 3), np.float32)}))
    conv = only(seen, "Conv").attributes
    assert (conv["strides"], conv["group"], conv["auto_pad"]) == ((2, 1), 1, "VALID")
    assert only(seen, "LeakyRelu").attributes["alpha"] == 0.25
    value = only(seen, "ConstantOfShape").attributes["value"]
    assert isinstance(value, Constant)
    assert (value.shape, value.dtype, value.array.tolist()) == ((1,), DType.INT64, [7])


def test_attributes_of_the_ml_domain(look):
    classes = ["a", "", "ünï"]
    label = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_floats=[0.5, 1.5, 2.5],
        values_strings=classes,
    )
    text = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, (3,))
    proto = helper.make_model(
        graph([label], [tensor("x", (3,))], [text]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)],
        ir_version=8,
    )
    seen = look(proto.SerializeToString())
    encoder = only(seen, "LabelEncoder")
    assert encoder.domain == "ai.onnx.ml"
    assert encoder.attributes["keys_floats"] == (0.5, 1.5, 2.5)
    assert encoder.attributes["values_strings"] == tuple(classes)


def test_attribute_longer_than_the_buffer(look):
    perm = tuple(range(60))
    shape = (1,) * 59 + (2,)
    nodes = [node("Transpose", "x", "y", perm=[perm[-1], *perm[:-1]])]
    seen = look(model(nodes, [tensor("x", shape)], [tensor("y", (2, *shape[:-1]))]))
    assert only(seen, "Transpose").attributes["perm"] == (59, *range(59))


@pytest.mark.parametrize("length", [255, 256, 257, 5000])
def test_strings_around_the_size_of_the_first_buffer(look, length: int):
    """It has 256 bytes, and grows once for what is longer."""
    text = "ü" * (length // 2) + "x" * (length % 2)
    made = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=[text])
    made.attribute.append(helper.make_attribute("values_floats", [1.0]))
    words = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, (3,))
    proto = helper.make_model(
        graph([made], [words], [tensor("y", (3,))]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)],
        ir_version=8,
    )
    attributes = only(look(proto.SerializeToString()), "LabelEncoder").attributes
    assert attributes["keys_strings"] == (text,)
    assert attributes["values_floats"] == (1.0,)


def test_subgraphs_are_left_out(look):
    """ONNX Runtime passes them as graphs of their own."""
    branches = {
        name: graph([node(op_type, "x", "y")], [], [tensor("y", (2,))], name=name)
        for name, op_type in (("then_branch", "Abs"), ("else_branch", "Neg"))
    }
    made = helper.make_node("If", ["b"], ["z"], **branches)
    inputs = [tensor("x", (2,)), tensor("b", (), np.bool_)]
    seen = look(model([made], inputs, [tensor("z", (2,))]))
    assert only(seen, "If").attributes == {}


def test_an_attribute_without_a_value_is_what_the_kernels_read(look):
    """It is 0, although Softmax without the attribute would use the axis -1."""
    softmax = node("Softmax", "x", "y")
    softmax.attribute.append(onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT))
    data = model([softmax], [tensor("x", (2, 3))], [tensor("y", (2, 3))])
    assert only(look(data), "Softmax").attributes["axis"] == 0
    x = np.array([[0, 1, 2], [3, 5, 4]], np.float32)
    (y,) = session_of(data).run(None, {"x": x})
    np.testing.assert_allclose(y.sum(axis=0), 1, rtol=1e-6)


def test_a_float_without_a_value_is_zero(look):
    relu = node("LeakyRelu", "x", "y")
    relu.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT))
    seen = look(model([relu], [tensor("x", (2, 3))], [tensor("y", (2, 3))]))
    assert only(seen, "LeakyRelu").attributes == {"alpha": 0.0}
