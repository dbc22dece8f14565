"""Shared parts of the RNN, GRU and LSTM lowerings: sizes, weights, splitting, joining of steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.operators.lib.matmul import apply_fully_connected
from ep_nnapi.operators.lib.movement import equal_parts, transposed
from ep_nnapi.operators.lib.node import Computed, Node, each, zeros

MAX_UNROLLED_STEPS = 128
"""Largest number of time steps that is unrolled; each becomes about a dozen operations."""
ACTIVATIONS = {"sigmoid": spec.LOGISTIC, "tanh": spec.TANH, "relu": spec.RELU}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Blocks of rows in the weights of each operator, one for each gate or candidate."""
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@frozen
class RecurrentLayer:
    """The sizes of a recurrent node.

    reverse       for each direction, True if it goes from the last step to the first
    activations   for each direction, the NNAPI operations of its activations
    batch_first   True if the batch axis comes before the time axis (`layout` 1)
    """

    steps: int
    batch: int
    units: int
    reverse: tuple[bool, ...]
    activations: tuple[tuple[OperationSpec, ...], ...]
    batch_first: bool

    def order(self, direction: int) -> Sequence[int]:
        """Indexes of the time steps in the order in which `direction` computes them."""
        return range(self.steps)[::-1] if self.reverse[direction] else range(self.steps)


def recurrent_layer(n: Node, functions: Sequence[str]) -> RecurrentLayer:
    """Return the node's sizes; raise Reject for clip, shorter sequences, other activations.

    functions   the default activations of one direction
    """
    x, direction = n.input(0), n.text("direction", "forward")
    n.require(direction in _DIRECTIONS, Reason.ATTRIBUTE, f"direction is {direction}")
    clip = n.real("clip", 0.0)
    n.require(clip == 0, Reason.ATTRIBUTE, f"clip is {clip:g}; only 0 is supported")
    batch_first = n.integer("layout", 0) == 1
    for index in range(3):
        value = n.input(index)
        n.require(value.rank == 3, Reason.RANK, f"{value.name} has rank {value.rank}; it must be 3")
    steps, batch = x.shape[:2][:: -1 if batch_first else 1]
    if n.has(4):
        lengths = set(n.integers_at(4))
        detail = f"{n.input(4).name} has sequences of {sorted(lengths)} steps; only of all {steps}"
        n.require(lengths == {steps}, Reason.CONSTANT, detail)
    reverse = _DIRECTIONS[direction]
    names = n.texts("activations", tuple(functions) * len(reverse))
    operations = [_activation(name) for name in names]
    count = len(functions)
    detail = f"activations has {len(operations)} names; {direction} takes {count * len(reverse)}"
    n.require(len(operations) == count * len(reverse), Reason.ATTRIBUTE, detail)
    each_way = tuple(tuple(operations[i : i + count]) for i in range(0, len(operations), count))
    layer = RecurrentLayer(steps, batch, n.input(2).shape[2], reverse, each_way, batch_first)
    _require_fitting_inputs(n, layer)
    return layer


def _require_fitting_inputs(n: Node, layer: RecurrentLayer) -> None:
    """Raise Reject(SHAPE) for weights, biases and initial states of other sizes than the layer's.

    W [directions, gates units, inputs], R [directions, gates units, units],
    B [directions, 2 gates units], states [directions, batch, units] (`layout` 1: batch first)
    """
    directions, units = len(layer.reverse), layer.units
    rows = GATES[n.node.op_type] * units
    state = (directions, layer.batch, units)
    if layer.batch_first:
        state = (layer.batch, directions, units)
    wanted = {
        1: (directions, rows, n.input(0).shape[2]),
        2: (directions, rows, units),
        3: (directions, 2 * rows),
        5: state,
        6: state,
        7: (directions, 3 * units),
    }
    for index, shape in wanted.items():
        if n.has(index) and n.input(index).shape != shape:
            value = n.input(index)
            detail = f"{value.name} has shape {list(value.shape)}; it must be {list(shape)}"
            raise Reject(Reason.SHAPE, detail)


def _activation(name: str) -> OperationSpec:
    row = ACTIVATIONS.get(name.lower())
    if row is None:
        raise Reject(Reason.ATTRIBUTE, f"activation {name}; NNAPI's are Sigmoid, Tanh and Relu")
    return row


def gate_weights(n: Node, index: int, direction: int, gates: slice) -> Constant:
    """Return rows of the constant weights or biases at input `index`, for one direction."""
    known = n.constant(index)
    count = len(range(*gates.indices(known.shape[1])))
    return known.map((count, *known.shape[2:]), lambda a: a[direction, gates])


def gate_bias(n: Node, direction: int, *gates: slice) -> Constant:
    """Return the sum of these rows of input 3 (B); zeros where it is omitted."""
    if not n.has(3):
        return zeros(gates[0].stop - gates[0].start, n.input(0).dtype)
    first, *others = (gate_weights(n, 3, direction, g) for g in gates)
    return first.map(first.shape, lambda a: sum((other.array for other in others), start=a))


def flat_sequence(n: Node, layer: RecurrentLayer) -> Computed:
    """Return input 0 of a layer that is unrolled, reshaped to [steps * batch, inputs].

    Raises Reject(SIZE) for more than MAX_UNROLLED_STEPS steps.
    """
    x = n.input(0)
    detail = f"{x.name} has {layer.steps} steps; at most {MAX_UNROLLED_STEPS} are unrolled"
    n.require(layer.steps <= MAX_UNROLLED_STEPS, Reason.SIZE, detail)
    reads = x.shape[2]
    if layer.batch_first and layer.batch > 1:
        x = yield from transposed(n, x, (1, 0, 2))
    return (yield from n.reshaped(x, (layer.steps * layer.batch, reads)))


def fully_connected(n: Node, x: Value, weights: Constant, biases: Constant) -> Computed:
    """Return the rows of `x` after a fully connected layer."""
    y = n.temp(x, (x.shape[0], weights.shape[0]))
    yield from apply_fully_connected(n, x, n.value("weights", weights), biases, y)
    return y


def initial_state(
    n: Node, layer: RecurrentLayer, index: int, direction: int
) -> Generator[Call, None, Value | None]:
    """Return the direction's initial state [batch, units]; None where it is zeros."""
    if not n.has(index):
        return None
    given, axis = n.input(index), 1 if layer.batch_first else 0
    shape = (layer.batch, layer.units)
    if given.constant is not None:
        if not given.constant.array.any():
            return None
        return n.value(given.name, given.constant.map(shape, lambda a: a.take(direction, axis)))
    per_direction = yield from equal_parts(n, given, axis, len(layer.reverse))
    return (yield from n.reshaped(per_direction[direction], shape))


def write_outputs(
    n: Node, layer: RecurrentLayer, outputs: Sequence[Value], states: Sequence[Sequence[Value]]
) -> Iterator[Call]:
    """Emit those of the node's outputs that exist.

    outputs   for each direction the outputs of all steps, [steps, batch, units] or batch first
    states    for each direction its final states [batch, units]
    """
    if n.has_output(0):
        axis = 2 if layer.batch_first else 1
        yield from _join_directions(n, outputs, axis, n.output(0))
    for i in range(len(states[0])):
        if n.has_output(1 + i):
            axis = 1 if layer.batch_first else 0
            yield from _join_directions(n, [s[i] for s in states], axis, n.output(1 + i))


def _join_directions(
    n: Node, per_direction: Sequence[Value], axis: int, y: Value
) -> Iterator[Call]:
    """Emit `y` = the directions stacked along a new axis `axis`."""
    if len(per_direction) == 1:
        yield from n.reshape(per_direction[0], y)
        return
    shape = (*y.shape[:axis], 1, *y.shape[axis + 1 :])
    wide = yield from each(n.reshaped(p, shape) for p in per_direction)
    yield apply(spec.CONCATENATION, inputs=wide, axis=axis, out=y)


def join_steps(n: Node, layer: RecurrentLayer, outputs: Sequence[Value]) -> Computed:
    """Return the outputs of all steps joined: [steps, batch, units], or batch first."""
    joined = outputs[0]
    if layer.steps > 1:
        joined = n.temp(outputs[0], (layer.steps * layer.batch, layer.units))
        yield apply(spec.CONCATENATION, inputs=outputs, axis=0, out=joined)
    whole = yield from n.reshaped(joined, (layer.steps, layer.batch, layer.units))
    if not layer.batch_first:
        return whole
    shape = (layer.batch, layer.steps, layer.units)
    if 1 in shape[:2]:
        return (yield from n.reshaped(whole, shape))
    return (yield from transposed(n, whole, (1, 0, 2)))
