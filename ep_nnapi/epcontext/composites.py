"""Composites of an alternative's model: JSON, which readers may leave unread.

A list of composites, each a list of the fields of `nnapi.model.Composite` in their order; a port is
a list of its fields, or null. A constant that only the composite has is an object: `type`,
`dimensions`, `scale`, `zero_point`, and its `offset` and `size` in the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode, OperandCode
from ep_nnapi.nnapi.model import AttributeValue, Composite, CompositePort, Data, Model, Operand

_Add = Callable[[Array], tuple[int, int]]
"""Adds a constant to the weights; returns offset and size."""


def packed(composites: Iterable[Composite], add: _Add) -> bytes:
    """Returns the composites as bytes, empty if there are none."""
    rows = [
        (
            each.name,
            each.since,
            [port and _packed_port(port, add) for port in each.inputs],
            [port and _packed_port(port, add) for port in each.outputs],
            dict(each.attributes),
            each.members,
            each.activation,
        )
        for each in composites
    ]
    return json.dumps(rows, separators=(",", ":")).encode() if rows else b""


def _packed_port(port: CompositePort, add: _Add) -> tuple[Any, ...]:
    operand: Any = port.operand
    if isinstance(operand, Operand) and isinstance(operand.value, Data):
        names = ("type", "dimensions", "scale", "zero_point", "offset", "size")
        values = (operand.type, operand.dimensions, operand.scale, operand.zero_point)
        operand = dict(zip(names, (*values, *add(operand.value.bytes)), strict=True))
    return operand, port.perm, port.shape


def unpacked(text: str, model: Model, weights: Array) -> tuple[Composite, ...]:
    """Returns the composites of a model; none if `text` are no composites that fit it.

    Their operations compute what they do, so that nothing is lost then.
    """
    if not text:
        return ()
    try:
        readers = _readers(model)
        rows = json.loads(text)
        return tuple(_composite(row, model, readers, weights) for row in rows)
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return ()


def _readers(model: Model) -> Mapping[int, set[int]]:
    """The operations that read each operand; for an output of the model also their number."""
    found = {index: {len(model.operations)} for index in model.outputs}
    for n, operation in enumerate(model.operations):
        for index in operation.inputs:
            found.setdefault(index, set()).add(n)
    return found


def _composite(
    row: Any,  # noqa: ANN401 (JSON)
    model: Model,
    readers: Mapping[int, set[int]],
    weights: Array,
) -> Composite:
    name, since, inputs, outputs, attributes, members, activation = row
    ports = [tuple(p and _port(p, model, weights) for p in side) for side in (inputs, outputs)]
    members = _integers(members, len(model.operations))
    computed = {i for n in members for i in model.operations[n].outputs}
    delivered = {port.operand for port in ports[1] if port is not None}
    read = {n for index in computed - delivered for n in readers.get(index, ())}
    if not delivered or not delivered <= computed or not read <= set(members):
        raise ValueError("a composite is not what its members compute")
    values = {str(key): _attribute(value) for key, value in attributes.items()}
    code = FuseCode(activation)
    return Composite(str(name), int(since), ports[0], ports[1], values, members, code)


def _port(row: Any, model: Model, weights: Array) -> CompositePort:  # noqa: ANN401 (JSON)
    given, perm, shape = row
    operand = _constant(given, weights) if isinstance(given, dict) else None
    index = 0 if operand else _integers([given], len(model.operands))[0]
    rank = len((operand or model.operands[index]).dimensions)
    axes = _integers(perm, max(rank, 1))
    if sorted(axes) not in ([], list(range(rank))):
        raise ValueError("a port's axes are no permutation")
    return CompositePort(operand or index, axes, _integers(shape, 1 << 31))


def _constant(given: dict[str, Any], weights: Array) -> Operand:
    """A constant of a composite's own; raises ValueError if it has not the bytes it needs."""
    offset, size = _integers([given["offset"], given["size"]], weights.size + 1)
    dimensions, scale = _integers(given["dimensions"], 1 << 31), float(given["scale"])
    data = Data(weights[offset : offset + size])
    code = OperandCode(given["type"])
    operand = Operand(code, dimensions, scale, int(given["zero_point"]), value=data)
    if not operand.known or operand.size * code.numpy.itemsize != data.size:
        raise ValueError("a constant has another size")
    return operand


def _integers(numbers: Any, end: int) -> tuple[int, ...]:  # noqa: ANN401 (JSON)
    """The integers, each from 0 to below `end`."""
    if not all(type(i) is int and 0 <= i < end for i in numbers):
        raise ValueError("an index is out of range")
    return tuple(numbers)


def _attribute(value: Any) -> AttributeValue:  # noqa: ANN401 (JSON)
    kinds = {type(each) for each in value} if isinstance(value, list) else {type(value)}
    if not kinds <= {int, float, str}:
        raise ValueError("an attribute is no number or text")
    return tuple(value) if isinstance(value, list) else value
