"""Invalid and unusual changes of models of one operator.

Constants get other shapes and values, attributes other numbers, lengths and types, tensors other
declared shapes, and inputs and outputs are left out.
"""

import random
from collections.abc import Callable

import numpy as np
from google.protobuf.message import EncodeError
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

INTEGERS = (0, 1, -1, 2, -2, 3, 5, 64, 255, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63), 2**63 - 1)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 3e38, np.inf, -np.inf, np.nan)
TEXTS = (b"", b"x", b"SAME_UPPER", b"VALID", b"linear", b"cubic", b"reflect", b"\xff", b"\x1b[31m")
DRAWN_FOR = {
    "kernel_shape": (0, 1, -1, 2, 3, 5, 64),
    "equation": (b"", b"x", b"i->", b"ij->ii", b"i,i->j", b"...i->...", b"->", b"ij,jk->ki"),
}
"""Other numbers and texts than these keep ONNX Runtime itself busy for minutes."""
TYPES = (np.float32, np.float16, np.int32, np.int64, np.uint8)
MOST_ELEMENTS = 1 << 16
"""Of a constant that is made longer."""


def misused(model: ModelProto, rng: random.Random) -> bytes:
    """The model with one to three facts changed, as a file's bytes."""
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(CHANGES)(changed, rng)
    try:
        return changed.SerializeToString()
    except (EncodeError, ValueError):  # text that is no UTF-8
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


def _change_constant(model: ModelProto, rng: random.Random) -> None:
    """Another shape, length, type or other elements."""
    if not model.graph.initializer:
        return _change_attribute(model, rng)
    tensor = rng.choice(model.graph.initializer)
    if tensor.data_type not in ELEMENTS:
        return None
    array = numpy_helper.to_array(tensor)
    way = rng.randrange(5)
    if way == 0:
        array = array.reshape(rng.choice(_shapes(array)))
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


ELEMENTS = {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.BOOL,
    TensorProto.DOUBLE,
}
"""The types of constants that are changed."""


def _shapes(array: np.ndarray) -> list[tuple[int, ...]]:
    """Other shapes of as many elements."""
    found = [(array.size,), (array.size, 1), (1, *array.shape), (*array.shape, 1)]
    return [*found, ()] if array.size == 1 else found


def _of_length(array: np.ndarray, length: int) -> np.ndarray:
    length = min(max(length, 0), MOST_ELEMENTS)
    return np.resize(array, length) if array.size else np.zeros(length, array.dtype)


def _element(dtype: np.dtype, rng: random.Random) -> object:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(rng.choice(INTEGERS), limits.min), limits.max)
    with np.errstate(over="ignore"):
        return np.asarray(rng.choice(REALS)).astype(dtype)


def _change_attribute(model: ModelProto, rng: random.Random) -> None:
    """Another number, text, length or type; or none of it."""
    node = rng.choice(model.graph.node)
    if not node.attribute or rng.random() < 0.15:
        return _add_attribute(node, rng)
    attribute = rng.choice(node.attribute)
    way = rng.randrange(8)
    if way == 0:
        node.attribute.remove(attribute)
    elif attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(INTEGERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(REALS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice(DRAWN_FOR.get(attribute.name, TEXTS))
    elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        _change_list(attribute, rng, way)
    elif attribute.type == AttributeProto.TENSOR and attribute.t.data_type in ELEMENTS:
        array = numpy_helper.to_array(attribute.t).reshape(-1)
        array = _of_length(array, rng.choice((0, 1, 2, array.size + 1)))
        attribute.t.CopyFrom(numpy_helper.from_array(array))
    return None


def _change_list(attribute: AttributeProto, rng: random.Random, way: int) -> None:
    field, choices = {
        AttributeProto.INTS: ("ints", INTEGERS),
        AttributeProto.FLOATS: ("floats", REALS),
        AttributeProto.STRINGS: ("strings", TEXTS),
    }[attribute.type]
    items, choices = getattr(attribute, field), DRAWN_FOR.get(attribute.name, choices)
    if way == 1 and items:
        items.pop()
    elif way == 2:
        items.append(rng.choice((*items, *choices)))
    elif way == 3:
        del items[:]
    elif items:
        items[rng.randrange(len(items))] = rng.choice(choices)


def _add_attribute(node: NodeProto, rng: random.Random) -> None:
    """One that another version of an operator has, of any type."""
    name = rng.choice(ATTRIBUTES)
    value = rng.choice((rng.choice(INTEGERS), rng.choice(REALS), [], [rng.choice(INTEGERS)] * 2))
    node.attribute.append(
        helper.make_attribute(name, value, attr_type=None if value != [] else AttributeProto.INTS)
    )


ATTRIBUTES = (
    "axis",
    "axes",
    "keepdims",
    "pads",
    "strides",
    "dilations",
    "kernel_shape",
    "group",
    "auto_pad",
    "ceil_mode",
    "mode",
    "epsilon",
    "to",
    "alpha",
    "beta",
    "perm",
    "split",
    "starts",
    "ends",
    "output_padding",
    "output_shape",
    "storage_order",
    "blocksize",
    "size",
    "hidden_size",
    "direction",
    "layout",
    "largest",
    "upper",
    "exclusive",
    "reverse",
    "num_outputs",
    "block_size",
)


def _change_signature(model: ModelProto, rng: random.Random) -> None:
    """An input or output less, left out, repeated or one more."""
    node, way = rng.choice(model.graph.node), rng.randrange(6)
    if way == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = ""
    elif way == 1 and node.input:
        node.input.pop()
    elif way == 2:
        node.input.append(rng.choice(["", *node.input]))
    elif way == 3 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(node.input)
    elif way == 4 and len(node.output) > 1:
        gone = node.output[index := rng.randrange(len(node.output))]
        node.output[index] = ""
        for value in [v for v in model.graph.output if v.name == gone]:
            model.graph.output.remove(value)
    else:
        model.opset_import[0].version = rng.choice((6, 7, 8, 9, 10, 11, 12, 13, 18, 21, 24))


def _change_declaration(model: ModelProto, rng: random.Random) -> None:
    """Another shape or type of an input or output of the graph."""
    values: list[ValueInfoProto] = [*model.graph.input, *model.graph.output]
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
        rng.choice(kind.shape.dim).dim_param = rng.choice(("n", "m"))
    elif way == 4:
        del kind.shape.dim[:]
        kind.shape.SetInParent()
    elif way == 5:
        kind.elem_type = rng.choice((*ELEMENTS, TensorProto.STRING, TensorProto.BFLOAT16))
    elif kind.shape.dim:
        dim = rng.choice(kind.shape.dim)
        dim.dim_value = rng.choice((0, 1, 2, 3, dim.dim_value + 1, 2**31, 2**40))


CHANGES: tuple[Callable[[ModelProto, random.Random], None], ...] = (
    _change_constant,
    _change_constant,
    _change_attribute,
    _change_attribute,
    _change_signature,
    _change_declaration,
)
