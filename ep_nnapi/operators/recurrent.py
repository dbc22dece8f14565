"""RNN, GRU and LSTM: UNIDIRECTIONAL_SEQUENCE_LSTM, or unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.call import Call, Given, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import ADD, LOGISTIC, MUL, RELU, SUB, TANH, UNIDIRECTIONAL_SEQUENCE_LSTM
from ep_nnapi.operators.lib.emit import Computed, compute, reverse_axis, widened
from ep_nnapi.operators.lib.movement import equal_parts, sliced
from ep_nnapi.operators.lib.node import Node, op, zeros
from ep_nnapi.operators.lib.recurrent_layer import (
    RecurrentLayer,
    flat_sequence,
    fully_connected,
    gate_bias,
    gate_weights,
    initial_state,
    join_steps,
    recurrent_layer,
    require_unrollable,
    write_outputs,
)

HiddenStates: TypeAlias = Generator[Call, None, list[Value]]
"""Generator of the calls of one direction; returns its outputs [batch, units] in time order."""


@op("RNN", since=7)
@widened
def rnn(n: Node) -> Iterator[Call]:
    """H = f(W x + R h + B), f being Tanh, Sigmoid or Relu.

    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    """
    yield from _both_directions(n, recurrent_layer(n, ("Tanh",)), _rnn)


@op("GRU", since=7, keeps=True)
@widened
def gru(n: Node) -> Iterator[Call]:
    """H = (1 - z) g(candidate) + z h, with the update gate z and the reset gate r.

    The reset gate multiplies h in the candidate; with `linear_before_reset`, it multiplies the
    product of h and the candidate's weights. Activations Sigmoid, Tanh or Relu.
    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    """
    yield from _both_directions(n, recurrent_layer(n, ("Sigmoid", "Tanh")), _gru)


def _both_directions(
    n: Node,
    layer: RecurrentLayer,
    lower: Callable[[Node, RecurrentLayer, int, Value], HiddenStates],
) -> Iterator[Call]:
    require_unrollable(n, layer)
    x = yield from flat_sequence(n, layer)
    outputs, states = [], []
    for direction in range(len(layer.reverse)):
        hidden = yield from lower(n, layer, direction, x)
        outputs.append((yield from join_steps(n, layer, hidden)))
        states.append((hidden[layer.order(direction)[-1]],))
    yield from write_outputs(n, layer, outputs, states)


def _rnn(n: Node, layer: RecurrentLayer, direction: int, x: Value) -> HiddenStates:
    units, (f,) = layer.units, layer.activations[direction]
    every = slice(0, units)
    biases = gate_bias(n, direction, every, slice(units, 2 * units))
    read = yield from fully_connected(n, x, gate_weights(n, 1, direction, every), biases)
    steps = yield from equal_parts(n, read, 0, layer.steps)
    recurrent = gate_weights(n, 2, direction, every)
    h = yield from initial_state(n, layer, 5, direction)
    hidden = dict[int, Value]()
    for t in layer.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from fully_connected(n, h, recurrent, zeros(units))
            total = yield from compute(n, ADD, total, back)
        h = hidden[t] = yield from compute(n, f, total)
    return [hidden[t] for t in range(layer.steps)]


def _gru(n: Node, layer: RecurrentLayer, direction: int, x: Value) -> HiddenStates:
    units, (f, _) = layer.units, layer.activations[direction]
    gates, look = slice(0, 2 * units), _Candidate.of(n, layer, direction)
    biases = gate_bias(n, direction, gates, slice(3 * units, 5 * units))
    read = yield from fully_connected(n, x, gate_weights(n, 1, direction, gates), biases)
    steps = yield from equal_parts(n, read, 0, layer.steps)
    seen = yield from fully_connected(
        n, x, gate_weights(n, 1, direction, look.gate), look.read_bias
    )
    candidates = yield from equal_parts(n, seen, 0, layer.steps)
    recurrent = gate_weights(n, 2, direction, gates)
    h = yield from initial_state(n, layer, 5, direction)
    hidden = dict[int, Value]()
    for t in layer.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from fully_connected(n, h, recurrent, zeros(2 * units))
            total = yield from compute(n, ADD, total, back)
        update, reset = yield from equal_parts(n, (yield from compute(n, f, total)), 1, 2)
        candidate = yield from look.candidate(n, candidates[t], reset, h)
        h = hidden[t] = yield from _interpolated(n, candidate, update, h)
    return [hidden[t] for t in range(layer.steps)]


def _interpolated(n: Node, candidate: Value, update: Value, h: Value | None) -> Computed:
    """Return (1 - z) c + z h as c + z (h - c); an omitted initial state h is zeros."""
    if h is None:
        kept = yield from compute(n, MUL, update, candidate)
        return (yield from compute(n, SUB, candidate, kept))
    way = yield from compute(n, SUB, h, candidate)
    part = yield from compute(n, MUL, update, way)
    return (yield from compute(n, ADD, candidate, part))


@frozen
class _Candidate:
    """The candidate of a GRU's hidden state.

    after       `linear_before_reset`: the reset gate is applied after the product with weights
    read_bias   the bias of the product with x
    bias        the bias of the product with the state
    """

    reset_after: bool
    gate: slice
    activation: OperationSpec
    weights: Constant
    read_bias: Constant
    bias: Constant

    @staticmethod
    def of(n: Node, layer: RecurrentLayer, direction: int) -> _Candidate:
        """Return the candidate of one direction."""
        units = layer.units
        gate, back = slice(2 * units, 3 * units), slice(5 * units, 6 * units)
        reset_after = n.integer("linear_before_reset", 0) != 0
        return _Candidate(
            reset_after,
            gate,
            layer.activations[direction][1],
            gate_weights(n, 2, direction, gate),
            gate_bias(n, direction, gate) if reset_after else gate_bias(n, direction, gate, back),
            gate_bias(n, direction, back) if reset_after else zeros(units),
        )

    def candidate(self, n: Node, read: Value, reset: Value, h: Value | None) -> Computed:
        """Return the candidate; `read` is its product with x plus `read_bias`."""
        total = read
        if self.reset_after:
            seen = (
                self.bias
                if h is None
                else (yield from fully_connected(n, h, self.weights, self.bias))
            )
            part = yield from compute(n, MUL, reset, seen)
            total = yield from compute(n, ADD, read, part)
        elif h is not None:
            part = yield from compute(n, MUL, reset, h)
            back = yield from fully_connected(n, part, self.weights, self.bias)
            total = yield from compute(n, ADD, read, back)
        return (yield from compute(n, self.activation, total))


LstmDirection: TypeAlias = Generator[Call, None, tuple[Value, tuple[Value, ...]]]
"""Generator of one direction's calls; returns its outputs of all steps and final states."""
States: TypeAlias = Sequence[Value | None]
"""The initial H and C; None for zeros."""

_GATES = {"input": 0, "output": 1, "forget": 2, "cell": 3}
"""NNAPI's gate names and their index in ONNX's gate order (iofc)."""
_CODES = {RELU: int(FuseCode.RELU), TANH: 4, LOGISTIC: 6}
"""Codes of the `activation` operand. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM."""


@op("LSTM", since=7)
@widened
def lstm(n: Node) -> Iterator[Call]:
    """C = f c + i g(...), H = o h(C), with the gates i, o and f.

    Activations Sigmoid, Tanh or Relu; f is 1 - i with `input_forget`; peepholes add C to the gates.
    The number of steps is unlimited where UNIDIRECTIONAL_SEQUENCE_LSTM is used.
    x [steps, batch, inputs] (`layout` 1: batch first); W, R and P constant
    """
    layer = recurrent_layer(n, ("Sigmoid", "Tanh", "Tanh"))
    outputs, states = [], []
    for direction in range(len(layer.reverse)):
        h = yield from initial_state(n, layer, 5, direction)
        c = yield from initial_state(n, layer, 6, direction)
        results = _sequence_lstm_outputs(n, layer, direction, (h, c))
        if results is None:
            output, last = yield from _unrolled(n, layer, direction, (h, c))
        else:
            output, last = yield from _sequence_lstm(n, layer, direction, (h, c), results)
        outputs.append(output)
        states.append(last)
    yield from write_outputs(n, layer, outputs, states)


def _sequence_lstm_outputs(
    n: Node, layer: RecurrentLayer, direction: int, first: States
) -> list[Value] | None:
    """Return the outputs that UNIDIRECTIONAL_SEQUENCE_LSTM has at this level.

    These are output, H and C, or only output. None where it cannot compute this node, or lacks an
    output that the node has.
    """
    f, g, h = layer.activations[direction]
    if f != LOGISTIC or g != h or n.integer("input_forget", 0):
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
        UNIDIRECTIONAL_SEQUENCE_LSTM,
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
) -> LstmDirection:
    """Emit UNIDIRECTIONAL_SEQUENCE_LSTM; for the reverse direction, reverse input and output."""
    x, time, (output, *states) = n.input(0), 1 if layer.batch_first else 0, results
    if layer.reverse[direction]:
        x = yield from reverse_axis(n, x, time)
    yield _sequence_lstm_call(n, layer, direction, x, first, results)
    if not states and n.has_output(1):
        taken = [range(size) for size in output.shape]
        taken[time] = range(layer.steps - 1, layer.steps)
        states = [(yield from sliced(n, output, taken, (layer.batch, layer.units)))]
    if layer.reverse[direction]:
        output = yield from reverse_axis(n, output, time)
    return output, tuple(states)


def _unrolled(n: Node, layer: RecurrentLayer, direction: int, first: States) -> LstmDirection:
    require_unrollable(n, layer)
    units, cell = layer.units, _Cell.of(n, layer, direction)
    every = slice(0, 4 * units)
    biases = gate_bias(n, direction, every, slice(4 * units, 8 * units))
    x = yield from flat_sequence(n, layer)
    read = yield from fully_connected(n, x, gate_weights(n, 1, direction, every), biases)
    steps = yield from equal_parts(n, read, 0, layer.steps)
    (h, c), hidden = first, dict[int, Value]()
    for t in layer.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from fully_connected(n, h, cell.recurrent, zeros(4 * units))
            total = yield from compute(n, ADD, total, back)
        gates = yield from equal_parts(n, total, 1, 4)
        c = yield from cell.memory(n, gates, c)
        h = hidden[t] = yield from cell.output(n, gates[1], c)
    if h is None or c is None:
        raise Reject(Reason.SHAPE, f"{n.input(0).name} has no steps")
    whole = yield from join_steps(n, layer, [hidden[t] for t in range(layer.steps)])
    return whole, (h, c)


@frozen
class _Cell:
    """One direction's cell.

    recurrent    the weights R of all gates
    peepholes    the weights of C for the input, output and forget gates; empty if none
    activations  f, g and h
    coupled      `input_forget`: the forget gate is 1 - the input gate
    """

    recurrent: Constant
    peepholes: tuple[Constant, ...]
    activations: tuple[OperationSpec, ...]
    coupled_gates: bool

    @staticmethod
    def of(n: Node, layer: RecurrentLayer, direction: int) -> _Cell:
        """Return the cell of one direction of a node."""
        units = layer.units
        gates = [slice(g * units, (g + 1) * units) for g in range(3)] if n.has(7) else []
        return _Cell(
            gate_weights(n, 2, direction, slice(0, 4 * units)),
            tuple(gate_weights(n, 7, direction, g) for g in gates),
            layer.activations[direction],
            n.integer("input_forget", 0) == 1,
        )

    def memory(self, n: Node, gates: Sequence[Value], c: Value | None) -> Computed:
        """Return the next C; `gates`: pre-activation sums of gates i, o, f and the candidate."""
        f, g, _ = self.activations
        i = yield from compute(n, f, (yield from self._with_peephole(n, 0, gates[0], c)))
        new = yield from compute(n, g, gates[3])
        added = yield from compute(n, MUL, i, new)
        if c is None:
            return added
        if self.coupled_gates:
            forget = yield from compute(n, SUB, n.scalar(1, i), i, shape=i.shape)
        else:
            forget = yield from compute(n, f, (yield from self._with_peephole(n, 2, gates[2], c)))
        kept = yield from compute(n, MUL, forget, c)
        return (yield from compute(n, ADD, kept, added))

    def output(self, n: Node, total: Value, c: Value) -> Computed:
        """Return the next H; `total`: the pre-activation sum of the output gate."""
        f, _, h = self.activations
        o = yield from compute(n, f, (yield from self._with_peephole(n, 1, total, c)))
        return (yield from compute(n, MUL, o, (yield from compute(n, h, c))))

    def _with_peephole(self, n: Node, gate: int, total: Value, c: Value | None) -> Computed:
        if not self.peepholes or c is None:
            return total
        seen = yield from compute(n, MUL, c, self.peepholes[gate])
        return (yield from compute(n, ADD, total, seen))
