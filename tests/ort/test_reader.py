"""What the adapter shows is what the ONNX file says, after ONNX Runtime's basic optimization."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ep_nnapi.errors import Reject
from ep_nnapi.graph.graph import Attribute, Graph, GraphNode
from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.ort.api import OrtError
from tests.ort.conftest import Install, start
from tests.ort.models import finish, graph, model, node, tensor

ROOT = Path(__file__).parents[2]
MODELS = [ROOT / "models/digits.onnx", ROOT / "../shared/models/mnist.onnx"]


class Look:
    """A provider that claims nothing and copies what it is shown."""

    def __init__(self) -> None:
        self.graphs: dict[str, Graph] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.refusals: dict[str, str] = {}

    def open(self, entries: Mapping[str, str]) -> "Look":
        return self

    def plan(self, seen: Graph) -> list:
        self.graphs[seen.key] = seen
        for n in seen.nodes:
            for value in n.inputs:
                if value is not None and value.constant:
                    self.load(value.name, value.constant)
        return []

    def load(self, name: str, constant: Constant) -> None:
        try:
            self.constants[name] = constant.load().copy()
        except Reject as refusal:
            self.refusals[name] = str(refusal)


@pytest.fixture
def look(install: Install):
    def at(serialized: bytes, **options: object) -> Look:
        seen = install(provider=Look())
        start(serialized, **options)
        return seen

    return at


def only(seen: Look, op_type: str) -> GraphNode:
    (found,) = [n for n in seen.graphs[""].nodes if n.op_type == op_type]
    return found


def plain(attribute: Attribute) -> object:
    """An attribute as onnx.helper.get_attribute_value tells it."""
    if isinstance(attribute, Constant):
        return attribute.array
    return attribute


def expected(attribute: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return (
        tuple(v.decode() if isinstance(v, bytes) else v for v in value)
        if isinstance(value, list)
        else value
    )


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


def test_values_are_one_object_and_omitted_ones_none(look):
    nodes = [
        node("Clip", "x - m", "c"),
        node("Add", "c c", "y"),
        node("Dropout", "y r t", "d -"),
    ]
    constants = {"m": np.float32(1), "r": np.float32(0.5), "t": np.bool_(True)}
    constants = {name: np.array(value) for name, value in constants.items()}
    seen = look(model(nodes, [tensor("x", ("n", None))], [tensor("d", ("n", None))], constants))
    clip, add = only(seen, "Clip"), only(seen, "Add")
    assert clip.inputs[1] is None
    assert clip.inputs[2].constant.shape == ()
    assert add.inputs[0] is add.inputs[1] is clip.outputs[0]
    assert clip.inputs[0] is seen.graphs[""].inputs[0]
    assert clip.inputs[0].dims == ("n", None)


def test_unnamed_nodes_go_by_their_first_output(look):
    nodes = [node("Abs", "x", "a"), node("Relu", "a", "y", name="last")]
    seen = look(model(nodes, [tensor("x")], [tensor("y")]))
    assert [n.name for n in seen.graphs[""].nodes] == ["a", "last"]


def test_what_is_not_a_tensor_or_has_no_shape(look):
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceAt", "s i", "a"),
        node("Abs", "a", "b"),
        node("Relu", "b", "y"),
    ]
    inputs = [tensor("x", ("n",)), tensor("i", (), np.int64)]
    seen = look(model(nodes, inputs, [tensor("y", ("m",))]))
    sequence = only(seen, "SequenceConstruct").outputs[0]
    assert (sequence.dtype, sequence.dims) == (DType.UNDEFINED, None)
    with pytest.raises(Reject, match="b has an unknown rank"):
        _ = only(seen, "Abs").outputs[0].shape


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT8E4M3FN, DType.STRING])
def test_types_without_numpy_twin_are_refused_when_loaded(look, dtype: DType):
    """Shown with their ONNX type; refused only when their data is asked for."""
    w = helper.make_tensor("w", dtype, [2], [b"a", b"b"] if dtype is DType.STRING else [1, 2])
    main = graph([node("Identity", "x", "z"), node("Reshape", "w s", "y")], [tensor("x")], [])
    main.output.append(helper.make_tensor_value_info("y", dtype, (2, 1)))
    main.initializer.append(w)
    main.input.append(tensor("s", (2,), np.int64))
    seen = look(finish(main, opset=21))
    value = only(seen, "Reshape").inputs[0]
    assert (value.dtype, value.constant.dtype, value.constant.shape) == (dtype, dtype, (2,))
    assert seen.refusals == {"w": f"DTYPE: {dtype.name} has no numpy type; use a standard type"}


def test_packed_constants_are_refused_when_loaded(look):
    w = helper.make_tensor("w", DType.INT4, [2], [1, 2])
    main = graph(
        [node("DequantizeLinear", "w s", "d"), node("Add", "x d", "y")],
        [tensor("x", (2,))],
        [tensor("y", (2,))],
        {"s": np.array(1, np.float32)},
    )
    main.initializer.append(w)
    seen = look(finish(main, opset=21))
    assert only(seen, "DequantizeLinear").inputs[0].dtype is DType.INT4
    assert seen.refusals == {"w": "DTYPE: INT4 has no numpy type; use a standard type"}


def test_constants_end_with_the_callback(look):
    w = np.ones((2, 3), np.float32)
    seen = look(model([node("Add", "x w", "y")], [tensor("x")], [tensor("y")], {"w": w}))
    weight = only(seen, "Add").inputs[1].constant
    assert weight.shape == (2, 3)
    with pytest.raises(OrtError, match="constant w is read after"):
        weight.load()


def test_constants_are_read_only_views(install: Install):
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    flags = []

    class Flags(Look):
        def plan(self, seen: Graph) -> list:
            loaded = [seen.nodes[0].inputs[1].constant.load() for _ in range(2)]
            flags.append((np.shares_memory(*loaded), loaded[0].flags.writeable))
            return []

    install(provider=Flags())
    start(model([node("Add", "x w", "y")], [tensor("x")], [tensor("y")], {"w": w}))
    assert flags == [(True, False)]


def test_claims_of_another_provider_are_seen(look):
    """`claimed_by` is "" for a free node; ONNX Runtime shows opsets of every domain it knows."""
    seen = look(model([node("Abs", "x", "y")], [tensor("x")], [tensor("y")]))
    assert seen.graphs[""].nodes[0].claimed_by == ""
    assert seen.graphs[""].opsets[""] == 17
    assert seen.graphs[""].nodes[0].since == 13
