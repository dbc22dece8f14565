"""RNN, GRU and LSTM: UNIDIRECTIONAL_SEQUENCE_LSTM, or unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.arguments import Given
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import is_symbolic
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.movement import along, equal_parts, reversed_along, sliced
from ep_nnapi.operators.lib.node import Computed, Node, op, widened, zeros
from ep_nnapi.operators.lib.recurrent_layer import (
    GATES,
    RecurrentLayer,
    flat_sequence,
    fully_connected,
    gate_bias,
    gate_weights,
    initial_state,
    join_steps,
    recurrent_layer,
    write_outputs,
)

States: TypeAlias = Sequence[Value | None]
"""The state H, and of an LSTM C; None for zeros."""
ComputedDirection: TypeAlias = Generator[Call, None, tuple[Value, Sequence[Value]]]
"""Generator of one direction's calls; returns its outputs of all steps and final states."""
CellStep: TypeAlias = Callable[[Value, int, States], Generator[Call, None, Sequence[Value]]]
"""`step(sums, t, states)` returns the states after time t from the gates' weighted sums."""

_GATES = {"input": 0, "output": 1, "forget": 2, "cell": 3}
"""NNAPI's gate names and their index in ONNX's gate order (iofc)."""
_CODES = {spec.RELU: int(FuseCode.RELU), spec.TANH: 4, spec.LOGISTIC: 6}
"""Codes of the `activation` operand. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM."""


@op("RNN", since=7)
@widened
def rnn(n: Node) -> Iterator[Call]:
    """H = f(W x + R h + B), f being Tanh, Sigmoid or Relu.

    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    """
    layer = recurrent_layer(n, ("Tanh",))
    x = yield from flat_sequence(n, layer)
    yield from _each_way(n, layer, lambda way: _rnn(n, layer, way, x))


@op("GRU", since=7, keeps=True)
@widened
def gru(n: Node) -> Iterator[Call]:
    """H = (1 - z) g(candidate) + z h, with the update gate z and the reset gate r.

    The reset gate multiplies h in the candidate; with `linear_before_reset`, it multiplies the
    product of h and the candidate's weights. Activations Sigmoid, Tanh or Relu.
    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    """
    layer = recurrent_layer(n, ("Sigmoid", "Tanh"))
    x = yield from flat_sequence(n, layer)
    yield from _each_way(n, layer, lambda way: _gru(n, layer, way, x))


@op("LSTM", since=7)
@widened
def lstm(n: Node) -> Iterator[Call]:
    """C = f c + i g(...), H = o h(C), with the gates i, o and f.

    Activations Sigmoid, Tanh or Relu; f is 1 - i with `input_forget`; peepholes add C to the gates.
    The number of steps is unlimited where UNIDIRECTIONAL_SEQUENCE_LSTM is used.
    x [steps, batch, inputs] (`layout` 1: batch first); W, R and P constant
    """
    layer = recurrent_layer(n, ("Sigmoid", "Tanh", "Tanh"))
    yield from _each_way(n, layer, lambda way: _lstm(n, layer, way))


@op("DynamicQuantizeLSTM", since=1, domain=MICROSOFT_DOMAIN, keeps=True)
def dynamic_quantize_lstm(n: Node) -> Iterator[Call]:
    """LSTM with its constant 8-bit weights as floats; the kernel also rounds x and H to 8 bits.

    W [directions, inputs, 4 units] and R [directions, units, 4 units], transposed to LSTM's; their
    scales and zero points [directions], or one for each of the last axis
    """
    weights = {1: _dequantized(n, 1, 8), 2: _dequantized(n, 2, 10)}
    given = (weights.get(i, v) for i, v in enumerate(n.node.inputs[:8]))
    inner = replace(n.node, op_type="LSTM", domain="", inputs=tuple(given))
    yield from lstm.lower(replace(n, node=inner))


def _dequantized(n: Node, index: int, scale: int) -> Value:
    """Return transposed weights; their scale is input `scale`, the zero point the one behind it."""
    stored = n.input(index)
    n.require(stored.rank == 3, Reason.RANK, f"{stored.name} has rank {stored.rank}; it must be 3")
    ways, reads, columns = stored.shape
    parts = [n.constant(i) for i in (index, scale, scale + 1)]
    for i in (scale, scale + 1):
        size = n.input(i).size
        detail = f"{n.input(i).name} has {size} numbers; it must have {ways} or {ways * columns}"
        n.require(size in (ways, ways * columns), Reason.SHAPE, detail)

    @cache
    def load() -> Array:
        numbers, factor, zero = (part.array.astype(np.float32) for part in parts)
        real: Array = (numbers - zero.reshape(ways, 1, -1)) * factor.reshape(ways, 1, -1)
        return real.transpose(0, 2, 1)

    constant = Constant((ways, columns, reads), DType.FLOAT, load)
    return n.value(f"{stored.name}/dequantized", constant)


def _each_way(
    n: Node, layer: RecurrentLayer, lower: Callable[[int], ComputedDirection]
) -> Iterator[Call]:
    outputs, states = [], []
    for direction in range(len(layer.reverse)):
        output, last = yield from lower(direction)
        outputs.append(output)
        states.append(last)
    yield from write_outputs(n, layer, outputs, states)


def _unrolled(
    n: Node, layer: RecurrentLayer, direction: int, x: Value, states: States, step: CellStep
) -> ComputedDirection:
    """Emit the time steps; the sums for `step` are of all gates, without a GRU's candidate."""
    blocks = GATES[n.node.op_type]
    gates, behind = (2 if n.node.op_type == "GRU" else blocks) * layer.units, blocks * layer.units
    every = slice(0, gates)
    biases = gate_bias(n, direction, every, slice(behind, behind + gates))
    read = yield from fully_connected(n, x, gate_weights(n, 1, direction, every), biases)
    steps = yield from equal_parts(n, read, 0, layer.steps)
    recurrent, hidden = gate_weights(n, 2, direction, every), dict[int, Value]()
    last: Sequence[Value] = ()
    for t in layer.order(direction):
        total, h = steps[t], states[0]
        if h is not None:
            back = yield from fully_connected(n, h, recurrent, zeros(gates))
            total = yield from n.compute(spec.ADD, total, back)
        states = last = yield from step(total, t, states)
        hidden[t] = last[0]
    if not hidden:
        raise Reject(Reason.SHAPE, f"{n.input(0).name} has no steps")
    whole = yield from join_steps(n, layer, [hidden[t] for t in range(layer.steps)])
    return whole, last


def _rnn(n: Node, layer: RecurrentLayer, direction: int, x: Value) -> ComputedDirection:
    (f,) = layer.activations[direction]

    def step(total: Value, t: int, states: States) -> Generator[Call, None, Sequence[Value]]:
        return [(yield from n.compute(f, total))]

    h = yield from initial_state(n, layer, 5, direction)
    return (yield from _unrolled(n, layer, direction, x, [h], step))


def _gru(n: Node, layer: RecurrentLayer, direction: int, x: Value) -> ComputedDirection:
    units, (f, g) = layer.units, layer.activations[direction]
    own, back = slice(2 * units, 3 * units), slice(5 * units, 6 * units)
    after = n.integer("linear_before_reset", 0) != 0  # the product of h and the weights is reset
    biases = (own,) if after else (own, back)
    bias = gate_bias(n, direction, back) if after else zeros(units)
    weights, reads = (gate_weights(n, i, direction, own) for i in (2, 1))
    seen = yield from fully_connected(n, x, reads, gate_bias(n, direction, *biases))
    candidates = yield from equal_parts(n, seen, 0, layer.steps)

    def step(total: Value, t: int, states: States) -> Generator[Call, None, Sequence[Value]]:
        update, reset = yield from equal_parts(n, (yield from n.compute(f, total)), 1, 2)
        (h,), candidate = states, candidates[t]
        if after:
            by_h = bias if h is None else (yield from fully_connected(n, h, weights, bias))
            part = yield from n.compute(spec.MUL, reset, by_h)
            candidate = yield from n.compute(spec.ADD, candidate, part)
        elif h is not None:
            part = yield from n.compute(spec.MUL, reset, h)
            by_h = yield from fully_connected(n, part, weights, bias)
            candidate = yield from n.compute(spec.ADD, candidate, by_h)
        candidate = yield from n.compute(g, candidate)
        return [(yield from _interpolated(n, candidate, update, h))]

    first = yield from initial_state(n, layer, 5, direction)
    return (yield from _unrolled(n, layer, direction, x, [first], step))


def _interpolated(n: Node, candidate: Value, update: Value, h: Value | None) -> Computed:
    """Return (1 - z) c + z h as c + z (h - c); an omitted initial state h is zeros."""
    if h is None:
        kept = yield from n.compute(spec.MUL, update, candidate)
        return (yield from n.compute(spec.SUB, candidate, kept))
    way = yield from n.compute(spec.SUB, h, candidate)
    part = yield from n.compute(spec.MUL, update, way)
    return (yield from n.compute(spec.ADD, candidate, part))


def _lstm(n: Node, layer: RecurrentLayer, direction: int) -> ComputedDirection:
    h = yield from initial_state(n, layer, 5, direction)
    c = yield from initial_state(n, layer, 6, direction)
    results = _sequence_lstm_outputs(n, layer, direction, (h, c))
    if results is not None:
        return (yield from _sequence_lstm(n, layer, direction, (h, c), results))
    x = yield from flat_sequence(n, layer)
    return (yield from _unrolled(n, layer, direction, x, (h, c), _lstm_step(n, layer, direction)))


def _sequence_lstm_outputs(
    n: Node, layer: RecurrentLayer, direction: int, first: States
) -> list[Value] | None:
    """Return the outputs that UNIDIRECTIONAL_SEQUENCE_LSTM has at this level.

    These are output, H and C, or only output. None where it cannot compute this node, or lacks an
    output that the node has.
    """
    f, g, h = layer.activations[direction]
    if f != spec.LOGISTIC or g != h or n.integer("input_forget", 0):
        return None
    x = n.input(0)
    output = n.temp(x, (*x.shape[:2], layer.units))
    states = [n.temp(x, (layer.batch, layer.units)) for _ in ("H", "C")]
    if n.supports(_sequence_lstm_call(n, layer, direction, x, first, [output, *states])):
        return [output, *states]
    alone = _sequence_lstm_call(n, layer, direction, x, first, [output])
    return [output] if n.supports(alone) and not n.has_output(2) else None


def _sequence_lstm_call(
    n: Node,
    layer: RecurrentLayer,
    direction: int,
    x: Value,
    first: States,
    results: Sequence[Value],
) -> Call:
    units, operands = layer.units, dict[str, Given]()
    for name, gate in _GATES.items():
        own, back = (slice(g * units, (g + 1) * units) for g in (gate, gate + 4))
        operands[f"input_to_{name}_weights"] = gate_weights(n, 1, direction, own)
        operands[f"recurrent_to_{name}_weights"] = gate_weights(n, 2, direction, own)
        operands["cell_bias" if name == "cell" else f"{name}_gate_bias"] = gate_bias(
            n, direction, own, back
        )
        if n.has(7) and name != "cell":
            operands[f"cell_to_{name}_weights"] = gate_weights(n, 7, direction, own)
    nothing = zeros(layer.batch * units, x.dtype).reshaped((layer.batch, units))
    h, c = (state or nothing for state in first)
    return apply(
        spec.UNIDIRECTIONAL_SEQUENCE_LSTM,
        x,
        **operands,
        output_state_in=h,
        cell_state_in=c,
        activation=_CODES[layer.activations[direction][1]],
        cell_clip=0.0,
        projection_clip=0.0,
        time_major=not layer.batch_first,
        out=results,
    )


def _sequence_lstm(
    n: Node, layer: RecurrentLayer, direction: int, first: States, results: Sequence[Value]
) -> ComputedDirection:
    """Emit UNIDIRECTIONAL_SEQUENCE_LSTM; for the reverse direction, reverse input and output."""
    x, time, (output, *states) = n.input(0), 1 if layer.batch_first else 0, results
    if layer.reverse[direction]:
        x = yield from reversed_along(n, x, time)
    if None in first and is_symbolic((layer.batch,)):  # a constant would have the size of now
        none = yield from n.full(0, (layer.batch, layer.units), x.dtype)
        first = [state or none for state in first]
    yield _sequence_lstm_call(n, layer, direction, x, first, results)
    if not states and n.has_output(1):
        taken = along(output.shape, time, Span(layer.steps - 1, layer.steps))
        states = [(yield from sliced(n, output, taken, (layer.batch, layer.units)))]
    if layer.reverse[direction]:
        output = yield from reversed_along(n, output, time)
    return output, tuple(states)


def _lstm_step(n: Node, layer: RecurrentLayer, direction: int) -> CellStep:
    """Return the unrolled cell: from sums of the gates i, o, f and the candidate to H and C.

    With `input_forget` the forget gate is 1 - the input gate.
    """
    gates = [slice(g * layer.units, (g + 1) * layer.units) for g in range(3)]
    peepholes = [gate_weights(n, 7, direction, g) for g in gates] if n.has(7) else []
    active, g, h = layer.activations[direction]

    def gate(index: int, total: Value, c: Value | None) -> Computed:
        if peepholes and c is not None:
            seen = yield from n.compute(spec.MUL, c, peepholes[index])
            total = yield from n.compute(spec.ADD, total, seen)
        return (yield from n.compute(active, total))

    def step(total: Value, t: int, states: States) -> Generator[Call, None, Sequence[Value]]:
        i, o, f, candidate = yield from equal_parts(n, total, 1, 4)
        c = states[1]
        i = yield from gate(0, i, c)
        new = yield from n.compute(g, candidate)
        memory = yield from n.compute(spec.MUL, i, new)
        if c is not None:
            if n.integer("input_forget", 0) == 1:
                f = yield from n.compute(spec.SUB, n.scalar(1, i), i, shape=i.shape)
            else:
                f = yield from gate(2, f, c)
            kept = yield from n.compute(spec.MUL, f, c)
            memory = yield from n.compute(spec.ADD, kept, memory)
        o = yield from gate(1, o, memory)
        return (yield from n.compute(spec.MUL, o, (yield from n.compute(h, memory)))), memory

    return step
