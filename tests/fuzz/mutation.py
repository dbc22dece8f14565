"""ONNX models that are a little wrong: bytes damaged, or a few facts of them changed.

Constants get other shapes and values, attributes other numbers, lengths and types, tensors other
declared shapes; inputs and outputs are left out, and nodes are others.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf, nan

import numpy as np
from google.protobuf.message import EncodeError
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from tests.preparation.damage import damaged

INTEGERS = (0, 1, 2, 3, 5, 7, 63, 64, 255, 2**15, 2**20, 2**30, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 3e38, inf, -inf, nan)
TEXTS = (
    *(b"", b"x", b"SAME_UPPER", b"NOTSET", b"VALID", b"linear", b"cubic", b"reflect"),
    *(b"a\nb", b"\xff\xfe", b"\x1b[31m", b"linear" * 50),
)
DRAWN_FOR = {
    "kernel_shape": (0, 1, -1, 2, 3, 5, 64),
    "equation": (b"", b"x", b"i->", b"ij->ii", b"i,i->j", b"...i->...", b"->", b"ij,jk->ki"),
}
"""Other numbers and texts than these keep ONNX Runtime itself busy for minutes."""
OPERATORS = [
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
]
TYPES = (np.float32, np.float16, np.int32, np.int64, np.uint8)
ELEMENTS = {helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (*TYPES, "i1", "?", "f8")}
"""The types of constants that are changed."""
MOST_ELEMENTS = 1 << 16
"""Of a constant that is made longer."""
BYTES = 0.25
"""The share of models whose bytes are damaged; the others are parsed, changed and written."""
Change = Callable[[ModelProto, random.Random], None]


def mutated(model: ModelProto, rng: random.Random) -> bytes:
    """Another model than `model`, as a file's bytes."""
    if rng.random() < BYTES:
        return damaged(model.SerializeToString(), rng)[1]
    return _changed(model, rng, CHANGES)


def misused(model: ModelProto, rng: random.Random) -> bytes:
    """The model, of the same operators, with one to three facts changed."""
    return _changed(model, rng, MISUSES)


def _changed(model: ModelProto, rng: random.Random, changes: Sequence[Change]) -> bytes:
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(changes)(changed, rng)
    try:
        return changed.SerializeToString()
    except (EncodeError, ValueError):  # text that is no UTF-8, sizes beyond what a file may have
        return model.SerializeToString()


def add_qdq(model: ModelProto, rng: random.Random) -> None:
    """Puts a QDQ pair at each float input and output of the first node."""
    node, graph = model.graph.node[0], model.graph
    if model.opset_import[0].domain or not model.opset_import[0].version >= 10:
        return
    kinds = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    kinds |= {t.name: t.data_type for t in graph.initializer}
    stored = rng.choice((np.uint8, np.int8))
    graph.initializer.extend(
        numpy_helper.from_array(array, name)
        for array, name in (
            (np.array(0.05, np.float32), "q/scale"),
            (np.array(3, stored), "q/zero"),
        )
    )
    before, after = [], []
    for index, name in enumerate(node.input):
        if kinds.get(name) == TensorProto.FLOAT:
            before.extend(_pair(name, f"q/in{index}"))
            node.input[index] = f"q/in{index}"
    for index, name in enumerate(node.output):
        if kinds.get(name) == TensorProto.FLOAT:
            after.extend(_pair(f"q/out{index}", name))
            node.output[index] = f"q/out{index}"
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend((*before, rest[0], *after, *rest[1:]))


def _pair(name: str, to: str) -> tuple[NodeProto, NodeProto]:
    stored, parameters = f"{to}/stored", ("q/scale", "q/zero")
    return (
        helper.make_node("QuantizeLinear", [name, *parameters], [stored], f"{to}/Q"),
        helper.make_node("DequantizeLinear", [stored, *parameters], [to], f"{to}/DQ"),
    )


def _integer(rng: random.Random) -> int:
    number = rng.choice(INTEGERS)
    return rng.choice((number, number, -number, ~number))


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _node(model: ModelProto, rng: random.Random) -> NodeProto:
    nodes = [n for g in _graphs(model.graph) for n in g.node]
    return rng.choice(nodes) if nodes else model.graph.node.add()


def _tensors(model: ModelProto) -> list[TensorProto]:
    return [t for g in _graphs(model.graph) for t in g.initializer]


def _change_constant(model: ModelProto, rng: random.Random) -> None:
    """Another shape, length, type or other elements."""
    tensors = [t for t in _tensors(model) if t.data_type in ELEMENTS]
    if not tensors:
        return _change_attribute(model, rng)
    tensor = rng.choice(tensors)
    array = numpy_helper.to_array(tensor)
    way = rng.randrange(5)
    if way == 0:
        shapes = [(array.size,), (array.size, 1), (1, *array.shape), (*array.shape, 1)]
        array = array.reshape(rng.choice([*shapes, *[()] * (array.size == 1)]))
    elif way == 1:
        array = _of_length(array.reshape(-1), rng.choice((0, 1, 2, array.size + 1, array.size - 1)))
    elif way == 2:
        with np.errstate(invalid="ignore", over="ignore"):
            array = array.astype(rng.choice(TYPES))
    elif array.size:
        array = array.copy()
        where = slice(None) if rng.random() < 0.3 else rng.randrange(array.size)
        array.reshape(-1)[where] = _element(array.dtype, rng)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return None


def _of_length(array: np.ndarray, length: int) -> np.ndarray:
    length = min(max(length, 0), MOST_ELEMENTS)
    return np.resize(array, length) if array.size else np.zeros(length, array.dtype)


def _element(dtype: np.dtype, rng: random.Random) -> object:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(_integer(rng), limits.min), limits.max)
    with np.errstate(over="ignore"):
        return np.asarray(rng.choice(FLOATS)).astype(dtype)


def _change_tensor(model: ModelProto, rng: random.Random) -> None:
    """Sizes, type or bytes that do not fit the rest of a constant."""
    tensors = _tensors(model)
    if not tensors:
        return
    tensor, way = rng.choice(tensors), rng.randrange(4)
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


def _change_attribute(model: ModelProto, rng: random.Random) -> None:
    """Another number, text, length or type; or none of it."""
    node = _node(model, rng)
    if not node.attribute or rng.random() < 0.15:
        return _add_attribute(node, rng)
    attribute = rng.choice(node.attribute)
    way = rng.randrange(8)
    if way == 0:
        node.attribute.remove(attribute)
    elif attribute.type == AttributeProto.INT:
        attribute.i = _integer(rng)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice(DRAWN_FOR.get(attribute.name, TEXTS))
    elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        _change_list(attribute, rng, way)
    elif attribute.type == AttributeProto.TENSOR and attribute.t.data_type in ELEMENTS:
        array = numpy_helper.to_array(attribute.t).reshape(-1)
        array = _of_length(array, rng.choice((0, 1, 2, array.size + 1)))
        attribute.t.CopyFrom(numpy_helper.from_array(array))
    else:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    return None


def _change_list(attribute: AttributeProto, rng: random.Random, way: int) -> None:
    integers = tuple(_integer(rng) for _ in range(9))
    field, choices = {
        AttributeProto.INTS: ("ints", integers),
        AttributeProto.FLOATS: ("floats", FLOATS),
        AttributeProto.STRINGS: ("strings", TEXTS),
    }[attribute.type]
    items, choices = getattr(attribute, field), DRAWN_FOR.get(attribute.name, choices)
    if way == 1 and items:
        items.pop()
    elif way == 2:
        items.extend(rng.choices((*items, *choices), k=rng.choice((1, 1, 70))))
    elif way == 3:
        del items[:]
    elif items:
        items[rng.randrange(len(items))] = rng.choice(choices)


def _add_attribute(node: NodeProto, rng: random.Random) -> None:
    """One that a version of some operator has, mostly of this one, of any type."""
    names = _attributes("") if rng.random() < 0.3 else _attributes(node.op_type)
    value = rng.choice((_integer(rng), rng.choice(FLOATS), [], [_integer(rng)] * 2))
    kind = AttributeProto.INTS if value == [] else None
    node.attribute.append(helper.make_attribute(rng.choice(names), value, attr_type=kind))


@cache
def _attributes(op_type: str) -> list[str]:
    """The names of attributes that an operator has, in any version; of all, if it has none."""
    schemas = [s for s in defs.get_all_schemas_with_history() if s.name == op_type or not op_type]
    return sorted({name for s in schemas for name in s.attributes}) or _attributes("")


def _change_signature(model: ModelProto, rng: random.Random) -> None:
    """An input or output less, left out, another one or one more; another version."""
    node, way = _node(model, rng), rng.randrange(7)
    names = [n for g in _graphs(model.graph) for m in g.node for n in (*m.input, *m.output)]
    some = ["", "nowhere", *node.input, *rng.choices(names or [""], k=3)]
    if way <= 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(some) if way else ""
    elif way == 2 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif way == 3:
        node.input.append(rng.choice(some))
    elif way == 4 and len(node.output) > 1:
        gone = node.output[index := rng.randrange(len(node.output))]
        node.output[index] = ""
        for value in [v for v in model.graph.output if v.name == gone]:
            model.graph.output.remove(value)
    elif model.opset_import:
        versions = (0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 18, 21, 24, 99, -1)
        rng.choice(model.opset_import).version = rng.choice(versions[2:-2] if way < 6 else versions)


def _change_declaration(model: ModelProto, rng: random.Random) -> None:
    """Another shape or type of a value."""
    graph = model.graph
    values: list[ValueInfoProto] = [*graph.input, *graph.output, *graph.value_info]
    kinds = [v.type.tensor_type for v in values if v.type.HasField("tensor_type")]
    if not kinds:
        return
    kind, way = rng.choice(kinds), rng.randrange(7)
    if way == 0:
        kind.ClearField("shape")
    elif way == 1 and kind.shape.dim:
        kind.shape.dim.pop()
    elif way == 2:
        kind.shape.dim.add().dim_value = rng.choice((0, 1, 2, 3))
    elif way == 3 and kind.shape.dim:
        rng.choice(kind.shape.dim).dim_param = rng.choice(("n", "n", "m", ""))
    elif way == 4:
        del kind.shape.dim[:]
        kind.shape.SetInParent()
    elif way == 5:
        kind.elem_type = rng.choice(TensorProto.DataType.values())
    elif kind.shape.dim:
        dim = rng.choice(kind.shape.dim)
        dim.dim_value = rng.choice((0, 1, 2, 3, dim.dim_value + 1, 2**40, _integer(rng)))


def _change_graph(model: ModelProto, rng: random.Random) -> None:
    """Other nodes; another version of the file's format, or name."""
    graph, node, way = rng.choice([*_graphs(model.graph)]), _node(model, rng), rng.randrange(6)
    if way == 0:
        node.op_type = rng.choice(OPERATORS)
    elif way == 1:
        node.domain = rng.choice(("", "com.microsoft", "ai.onnx.ml", "x"))
    elif way == 2 and graph.node:
        graph.node.append(rng.choice(graph.node))
    elif way == 3 and graph.node:
        del graph.node[rng.randrange(len(graph.node))]
    elif way == 4:
        model.ir_version = rng.choice((0, 3, 4, 8, 10, 99))
    else:
        model.graph.name = rng.choice(("", "a\nb", "\x1b[31m", "x" * 5000))


MISUSES: Sequence[Change] = (
    *(_change_constant, _change_constant, _change_attribute, _change_attribute),
    *(_change_signature, _change_declaration),
)
CHANGES: Sequence[Change] = (*MISUSES, _change_tensor, _change_graph, _change_graph)
