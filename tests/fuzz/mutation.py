"""ONNX models that are a little wrong: bytes damaged, or a few facts of them changed."""

import random
from collections.abc import Callable, Iterator
from math import inf, nan

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from tests.preparation.damage import damaged

INTEGERS = (0, 1, 2, 3, 7, 63, 64, 255, 2**15, 2**20, 2**30, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 3e38, inf, -inf, nan)
TEXTS = (b"", b"x", b"SAME_UPPER", b"NOTSET", b"a\nb", b"\xff\xfe", b"\x1b[31m", b"linear" * 50)
OPERATORS = (
    "Conv",
    "Add",
    "Softmax",
    "Reshape",
    "Gather",
    "MatMul",
    "Resize",
    "Slice",
    "Pad",
    "If",
)
BYTES = 0.25
"""The share of models whose bytes are damaged; the others are parsed, changed and written."""
MOST_BYTES = 1 << 24


def mutated(model: ModelProto, rng: random.Random) -> bytes:
    """Another model than `model`, as a file's bytes."""
    if rng.random() < BYTES:
        return damaged(model.SerializeToString(), rng)[1]
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(CHANGES)(changed, rng)
    try:
        return changed.SerializeToString()
    except (EncodeError, ValueError):  # text that is no UTF-8, sizes beyond what a file may have
        return model.SerializeToString()


def _integer(rng: random.Random) -> int:
    number = rng.choice(INTEGERS)
    return -number if rng.random() < 0.4 else number


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _graph(model: ModelProto, rng: random.Random) -> GraphProto:
    return rng.choice([*_graphs(model.graph)])


def _node(model: ModelProto, rng: random.Random) -> NodeProto:
    nodes = [n for g in _graphs(model.graph) for n in g.node]
    return rng.choice(nodes) if nodes else model.graph.node.add()


def _change_attribute(model: ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if not node.attribute or rng.random() < 0.15:
        schema_like = rng.choice(("axis", "pads", "strides", "group", "mode", "epsilon", "to"))
        node.attribute.append(onnx.helper.make_attribute(schema_like, _integer(rng)))
        return
    attribute = rng.choice(node.attribute)
    if rng.random() < 0.15:
        node.attribute.remove(attribute)
    elif attribute.type == AttributeProto.INT:
        attribute.i = _integer(rng)
    elif attribute.type == AttributeProto.INTS and attribute.ints and rng.random() < 0.8:
        attribute.ints[rng.randrange(len(attribute.ints))] = _integer(rng)
    elif attribute.type == AttributeProto.INTS:
        attribute.ints.extend(_integer(rng) for _ in range(rng.randint(1, 70)))
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice(TEXTS)
    else:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())


def _change_node(model: ModelProto, rng: random.Random) -> None:
    graph, node = _graph(model, rng), _node(model, rng)
    names = [n for g in _graphs(model.graph) for m in g.node for n in (*m.input, *m.output)]
    way = rng.randrange(7)
    if way == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nowhere"])
    elif way == 1 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif way == 2:
        node.input.append(rng.choice([*names, ""]))
    elif way == 3:
        node.op_type = rng.choice(OPERATORS)
    elif way == 4:
        node.domain = rng.choice(("", "com.microsoft", "ai.onnx.ml", "x"))
    elif way == 5 and graph.node:
        graph.node.append(rng.choice(graph.node))
    elif graph.node:
        del graph.node[rng.randrange(len(graph.node))]


def _change_tensor(model: ModelProto, rng: random.Random) -> None:
    tensors = [t for g in _graphs(model.graph) for t in g.initializer]
    if not tensors:
        return
    tensor = rng.choice(tensors)
    way = rng.randrange(4)
    if way == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = _integer(rng)
    elif way == 1:
        tensor.data_type = rng.choice(TensorProto.DataType.values())
    elif way == 2:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    elif tensor.raw_data:
        at = rng.randrange(len(tensor.raw_data))
        data = tensor.raw_data
        tensor.raw_data = data[:at] + rng.randbytes(8) + data[at + 8 :]


def _change_value(model: ModelProto, rng: random.Random) -> None:
    graph = model.graph
    values: list[ValueInfoProto] = [*graph.input, *graph.output, *graph.value_info]
    if not values:
        return
    kind = rng.choice(values).type.tensor_type
    way = rng.randrange(4)
    if way == 0 and kind.shape.dim:
        rng.choice(kind.shape.dim).dim_value = _integer(rng)
    elif way == 1 and kind.shape.dim:
        rng.choice(kind.shape.dim).dim_param = rng.choice(("n", "m", "", "n"))
    elif way == 2:
        kind.elem_type = rng.choice(TensorProto.DataType.values())
    else:
        kind.ClearField("shape")


def _change_model(model: ModelProto, rng: random.Random) -> None:
    way = rng.randrange(3)
    if way == 0 and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice((0, 1, 6, 7, 11, 13, 21, 99, -1))
    elif way == 1:
        model.ir_version = rng.choice((0, 3, 4, 8, 10, 99))
    else:
        model.graph.name = rng.choice(("", "a\nb", "\x1b[31m", "x" * 5000))


CHANGES: tuple[Callable[[ModelProto, random.Random], None], ...] = (
    _change_attribute,
    _change_attribute,
    _change_node,
    _change_tensor,
    _change_value,
    _change_model,
)
