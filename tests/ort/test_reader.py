"""The adapter shows the ONNX file as it is after ONNX Runtime's basic optimization."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.graph.graph import Attribute, Graph
from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.ort.api import OrtError
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import parsed, serialized
from tests.ort.conftest import Install, start
from tests.ort.look import Look, only

ROOT = Path(__file__).parents[2]
MODELS = [ROOT / "models/digits.onnx", ROOT / "../shared/models/mnist.onnx"]


def plain(attribute: Attribute) -> object:
    """An attribute as onnx.helper.get_attribute_value tells it."""
    if isinstance(attribute, Constant):
        return attribute.array
    return attribute


def expected(attribute: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    if isinstance(value, bytes):
        return value.decode()
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_graph_is_the_optimized_model(look, path: Path, tmp_path: Path):
    """Compared with the model that ORT saves at its basic level: nodes, values, constants."""
    if not path.exists():
        pytest.skip(f"{path} is not there")
    saved = tmp_path / "basic.onnx"
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    seen = look(
        path.read_bytes(), graph_optimization_level=level, optimized_model_filepath=str(saved)
    )
    proto = onnx.load(saved)
    shown = seen.graphs[""]
    assert [n.op_type for n in shown.nodes] == [n.op_type for n in proto.graph.node]
    for ours, theirs in zip(shown.nodes, proto.graph.node, strict=True):
        assert ours.name == (theirs.name or theirs.output[0])
        assert [v.name if v else "" for v in ours.inputs] == list(theirs.input)
        assert [v.name for v in ours.outputs] == list(theirs.output)
        assert set(ours.attributes) >= {a.name for a in theirs.attribute}
        for attribute in theirs.attribute:
            np.testing.assert_equal(plain(ours.attributes[attribute.name]), expected(attribute))
    weights = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert seen.constants.keys() == weights.keys()
    for name, array in weights.items():
        assert seen.constants[name].dtype == array.dtype
        np.testing.assert_array_equal(seen.constants[name], array)


def test_values_are_one_object_and_omitted_ones_none(look):
    text = """(float[n,?] x) => (float[n,?] d) {
        c = Clip (x, , m) y = Add (c, c) d, = Dropout (y, r, t) }"""
    made = parsed(text, m=np.float32(1), r=np.float32(0.5), t=True)
    seen = look(made.SerializeToString())
    clip, add = only(seen, "Clip"), only(seen, "Add")
    assert clip.inputs[1] is None
    assert clip.inputs[2].constant.shape == ()
    assert add.inputs[0] is add.inputs[1] is clip.outputs[0]
    assert clip.inputs[0] is seen.graphs[""].inputs[0]
    assert clip.inputs[0].dims == ("n", None)


def test_unnamed_nodes_go_by_their_first_output(look):
    text = "(float[2,3] x) => (float[2,3] y) { a = Abs (x) [last] y = Relu (a) }"
    seen = look(serialized(text))
    assert [n.name for n in seen.graphs[""].nodes] == ["a", "last"]


def test_what_is_not_a_tensor_or_has_no_shape(look):
    text = """(float[n] x, int64 i) => (float[m] y) {
        s = SequenceConstruct (x, x) a = SequenceAt (s, i) b = Abs (a) y = Relu (b) }"""
    seen = look(serialized(text))
    sequence = only(seen, "SequenceConstruct").outputs[0]
    assert (sequence.dtype, sequence.dims) == (DType.UNDEFINED, None)
    with pytest.raises(Reject, match="b has an unknown rank"):
        _ = only(seen, "Abs").outputs[0].shape


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT8E4M3FN, DType.STRING])
def test_types_without_numpy_twin_are_refused_when_loaded(look, dtype: DType):
    """Shown with their ONNX type; refused only when their data is asked for."""
    made = parsed("(float[2,3] x, int64[2] s) => () { z = Identity (x) y = Reshape (w, s) }", 21)
    made.graph.output.append(helper.make_tensor_value_info("y", dtype, (2, 1)))
    numbers = [b"a", b"b"] if dtype is DType.STRING else [1, 2]
    made.graph.initializer.append(helper.make_tensor("w", dtype, [2], numbers))
    seen = look(made.SerializeToString())
    value = only(seen, "Reshape").inputs[0]
    assert (value.dtype, value.constant.dtype, value.constant.shape) == (dtype, dtype, (2,))
    assert seen.refusals == {"w": f"DTYPE: {dtype.name} has no numpy type; use a standard type"}


@pytest.mark.parametrize("numbers", [[1, -2, 7], [-8, 0, 3, -1]], ids=["odd", "even"])
@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4])
def test_four_bits_are_read_as_eight(look, dtype: DType, numbers: list[int]):
    given = [number & 15 for number in numbers] if dtype is DType.UINT4 else numbers
    text = f"(float[{len(given)}] x) => (float[{len(given)}] y) {{"
    made = parsed(f"{text} d = DequantizeLinear (w, s) y = Add (x, d) }}", 21, s=np.float32(1))
    made.graph.initializer.append(helper.make_tensor("w", dtype, [len(given)], given))
    seen = look(made.SerializeToString())
    assert only(seen, "DequantizeLinear").inputs[0].dtype is dtype
    w = seen.constants["w"]
    assert (w.dtype, w.tolist()) == (dtype.widened.numpy, given)


ADD = parsed("(float[2,3] x) => (float[2,3] y) { y = Add (x, w) }", w=np.eye(2, 3, dtype="f4"))


def test_constants_end_with_the_callback(look):
    seen = look(ADD.SerializeToString())
    weight = only(seen, "Add").inputs[1].constant
    assert weight.shape == (2, 3)
    with pytest.raises(OrtError, match="constant w is read after"):
        weight.load()


def test_constants_are_read_only_views(install: Install):
    flags = []

    class Flags(Look):
        def plan(self, seen: Graph) -> list:
            loaded = [seen.nodes[0].inputs[1].constant.load() for _ in range(2)]
            flags.append((loaded[0] is loaded[1], loaded[0].flags.writeable))
            return []

    install(provider=Flags())
    start(ADD.SerializeToString())
    assert flags == [(True, False)]


def test_claims_of_another_provider_are_seen(look):
    """`claimed_by` is "" for a free node; ONNX Runtime shows opsets of every domain it knows."""
    seen = look(serialized("(float[2,3] x) => (float[2,3] y) { y = Abs (x) }"))
    assert seen.graphs[""].nodes[0].claimed_by == ""
    assert seen.graphs[""].opsets[""] == 17
    assert seen.graphs[""].nodes[0].since == 13


def test_weights_in_a_file_that_a_branch_reads_from_the_outer_graph(tmp_path: Path) -> None:
    """ONNX Runtime finds the values of external data in the graph that has them alone."""
    branches = ", ".join(
        f"{name}_branch = b () => (float[1,8] {name}_y) {{ p = MatMul (x, w) {name}_y = {op} (p) }}"
        for name, op in (("then", "Relu"), ("else", "Neg"))
    )
    text = f"(bool c, float[1,8] x) => (float[1,8] y) {{ y = If (c) <{branches}> }}"
    rng, path = np.random.default_rng(0), tmp_path / "m.onnx"
    w, x = rng.standard_normal((8, 8)).astype(np.float32), np.ones((1, 8), np.float32)
    onnx.save(parsed(text, w=w), path, save_as_external_data=True, location="w", size_threshold=0)
    assert ep_nnapi.check(path).taken == 4
    session = nnapi_session(str(path))
    for c, want in ((True, np.maximum(x @ w, 0)), (False, -(x @ w))):
        np.testing.assert_allclose(session.run(None, {"c": np.array(c), "x": x})[0], want, 1e-5)
