"""RNN and GRU, for which NNAPI has no operation, unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import ADD, MUL, SUB
from ep_nnapi.operators.lib.emit import Computed, compute
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
from ep_nnapi.operators.lib.slicing import equal_parts
from ep_nnapi.operators.lib.widening import widened

HiddenStates: TypeAlias = Generator[Call, None, list[Value]]
"""Generator of the calls of one direction; returns its outputs [batch, units] in time order."""


@op("RNN", since=7)
@widened
def rnn(n: Node) -> Iterator[Call]:
    """H = f(W x + R h + B), f being Tanh, Sigmoid or Relu.

    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    Source: ONNX RNN-7, -14, -22; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    yield from _both_directions(n, recurrent_layer(n, ("Tanh",)), _rnn)


@op("GRU", since=7, keeps=True)
@widened
def gru(n: Node) -> Iterator[Call]:
    """H = (1 - z) g(candidate) + z h, with the update gate z and the reset gate r.

    The reset gate multiplies h in the candidate; with `linear_before_reset`, it multiplies the
    product of h and the candidate's weights. Activations Sigmoid, Tanh or Relu.
    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    Source: ONNX GRU-7, -14, -22; NDK ANEURALNETWORKS_FULLY_CONNECTED.
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
