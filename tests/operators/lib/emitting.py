"""Runs the calls that a helper of the operator lowerings emits, on the reference device."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import Call
from ep_nnapi.lowering.model_builder import lower
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import Target
from tests import calls

Emit = Callable[..., Generator[Call, None, Any]]


def value(name: str, array: np.ndarray) -> Value:
    return Value(name, DType[_NAMES.get(array.dtype.name, array.dtype.name.upper())], array.shape)


_NAMES = {"float32": "FLOAT"}


def constant(
    array: np.ndarray, q: Quantization | None = None, name: str = "w", dtype: DType | None = None
) -> Value:
    held = Constant.of(array)
    return Value(name, dtype or held.dtype, array.shape, q, constant=held)


@dataclass
class Emitted:
    """The calls of one helper, the values that it reads, and the value that it returned."""

    calls: list[Call]
    returned: Any
    inputs: Sequence[Value] = field(default_factory=tuple)

    @property
    def names(self) -> list[str]:
        return [call.spec.name for call in self.calls]


def node(
    inputs: Sequence[Value | None] = (),
    outputs: Sequence[Value] = (),
    *,
    level: int = 8,
    **attributes: object,
) -> Node:
    written = tuple(outputs) or (Value("out", DType.FLOAT, ()),)
    made = GraphNode(0, "n", "Test", "", 1, tuple(inputs), written, attributes)
    return Node(made, Target(level))


def emitted(emit: Emit, n: Node, *args: Any, inputs: Sequence[Value] = ()) -> Emitted:
    """Drives the generator `emit(n, *args)` to its end."""
    found: list[Call] = []
    steps = emit(n, *args)
    while True:
        try:
            found.append(replace(next(steps), origin=("n",)))
        except StopIteration as stop:
            return Emitted(found, stop.value, inputs)


def ran(made: Emitted, output: Value, feeds: Mapping[str, np.ndarray], level: int) -> np.ndarray:
    read = [v for v in made.inputs if v.name in feeds]
    lowered = lower(made.calls, read, [output], Target(level))
    return calls.run(lowered, feeds)[output.name]


def returned(emit: Emit, *arrays: np.ndarray, level: int = 8) -> np.ndarray:
    """The numbers of the value that `emit(n, *values)` returns."""
    values = [value(f"x{i}", a) for i, a in enumerate(arrays)]
    made = emitted(emit, node(values, level=level), *values, inputs=values)
    feeds = {v.name: a for v, a in zip(values, arrays, strict=True)}
    return ran(made, made.returned, feeds, level)


def written(
    emit: Emit,
    *arrays: np.ndarray,
    like: np.ndarray,
    level: int = 8,
    constants: Sequence[Value] = (),
    **attributes: object,
) -> np.ndarray:
    """The numbers of `y`, of the shape and type of `like`, that `emit(n, *values, y)` writes.

    constants   further inputs of the node, which `emit` finds there
    """
    values = [value(f"x{i}", a) for i, a in enumerate(arrays)]
    y = value("y", like)
    n = node([*values, *constants], [y], level=level, **attributes)
    made = emitted(emit, n, *values, y, inputs=values)
    feeds = {v.name: a for v, a in zip(values, arrays, strict=True)}
    return ran(made, y, feeds, level)


def floats(*shape: int, low: float = -2, high: float = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, shape).astype(np.float32)
