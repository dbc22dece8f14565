"""Attributes as Python values: every type, other domains, and longer than the first buffer."""

import numpy as np
import onnx
import pytest

from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_graph import model_of, parsed, serialized
from tests.ort.look import only


def test_attributes_of_every_type(look):
    """INT, INTS, FLOAT, STRING, TENSOR; FLOATS and STRINGS are of ONNX's ml domain."""
    text = """(float[1,1,5,5] x, int64[1] s) => (float[1,1,2,n] y) {
        c = Conv <strides = [2, 1], group = 1, auto_pad = "VALID"> (x, w)
        l = LeakyRelu <alpha = 0.25> (c) f = ConstantOfShape <value = int64[1] {7}> (s)
        g = Cast <to = 1> (f) y = Add (l, g) }"""
    seen = look(serialized(text, w=np.ones((1, 1, 3, 3), np.float32)))
    conv = only(seen, "Conv").attributes
    assert (conv["strides"], conv["group"], conv["auto_pad"]) == ((2, 1), 1, "VALID")
    assert only(seen, "LeakyRelu").attributes["alpha"] == 0.25
    value = only(seen, "ConstantOfShape").attributes["value"]
    assert isinstance(value, Constant)
    assert (value.shape, value.dtype, value.array.tolist()) == ((1,), DType.INT64, [7])


ML = {"ai.onnx.ml": 2}


def test_attributes_of_the_ml_domain(look):
    labels = 'keys_floats = [0.5, 1.5, 2.5], values_strings = ["a", "", "ünï"]'
    text = f"(float[3] x) => (string[3] y) {{ y = ai.onnx.ml.LabelEncoder <{labels}> (x) }}"
    encoder = only(look(serialized(text, domains=ML)), "LabelEncoder")
    assert encoder.domain == "ai.onnx.ml"
    assert encoder.attributes["keys_floats"] == (0.5, 1.5, 2.5)
    assert encoder.attributes["values_strings"] == ("a", "", "ünï")


def test_attribute_longer_than_the_buffer(look):
    nodes = f"y = Transpose <perm = {[59, *range(59)]}> (x)"
    ends = {"x": (*[1] * 59, 2)}, {"y": (2, *[1] * 59)}
    seen = look(model_of(nodes, *ends).SerializeToString())
    assert only(seen, "Transpose").attributes["perm"] == (59, *range(59))


@pytest.mark.parametrize("length", [255, 256, 257, 5000])
def test_strings_around_the_size_of_the_first_buffer(look, length: int):
    """It has 256 bytes, and grows once for what is longer."""
    word = "ü" * (length // 2) + "x" * (length % 2)
    labels = f'keys_strings = ["{word}"], values_floats = [1.0]'
    text = f"(string[3] x) => (float[3] y) {{ y = ai.onnx.ml.LabelEncoder <{labels}> (x) }}"
    attributes = only(look(serialized(text, domains=ML)), "LabelEncoder").attributes
    assert attributes["keys_strings"] == (word,)
    assert attributes["values_floats"] == (1.0,)


def test_subgraphs_are_left_out(look):
    """ONNX Runtime passes them as graphs of their own."""
    text = """(float[2] x, bool b) => (float[2] z) {
        z = If (b) <then_branch = t () => (float[2] y) { y = Abs (x) },
            else_branch = e () => (float[2] y) { y = Neg (x) }> }"""
    assert only(look(serialized(text)), "If").attributes == {}


def unset(op_type: str, name: str, kind: int) -> bytes:
    """A model of one operator, whose attribute has that name and no value."""
    proto = parsed(f"(float[2,3] x) => (float[2,3] y) {{ y = {op_type} (x) }}")
    proto.graph.node[0].attribute.add(name=name, type=kind)
    return proto.SerializeToString()


def test_an_attribute_without_a_value_is_what_the_kernels_read(look):
    """It is 0, although Softmax without the attribute would use the axis -1."""
    data = unset("Softmax", "axis", onnx.AttributeProto.INT)
    assert only(look(data), "Softmax").attributes["axis"] == 0
    x = np.array([[0, 1, 2], [3, 5, 4]], np.float32)
    (y,) = session_of(data).run(None, {"x": x})
    np.testing.assert_allclose(y.sum(axis=0), 1, rtol=1e-6)


def test_a_float_without_a_value_is_zero(look):
    seen = look(unset("LeakyRelu", "alpha", onnx.AttributeProto.FLOAT))
    assert only(seen, "LeakyRelu").attributes == {"alpha": 0.0}
