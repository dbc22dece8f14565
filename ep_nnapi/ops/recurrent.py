"""RNN and GRU, for which NNAPI has no operation, unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.nnapi.call import Call, Row
from ep_nnapi.nnapi.spec import ADD, FULLY_CONNECTED, MUL, SUB
from ep_nnapi.ops.lib.emit import Steps, compute
from ep_nnapi.ops.lib.node import Node, op, zeros
from ep_nnapi.ops.lib.recurrent_layer import (
    Layer,
    bias,
    deliver,
    dense,
    first_state,
    layer,
    over_time,
    rows,
    sequence,
    written_out,
)
from ep_nnapi.ops.lib.slicing import parts
from ep_nnapi.ops.lib.widening import widened

Direction: TypeAlias = Generator[Call, None, list[Value]]
"""Generator of the calls of one direction; returns its outputs [batch, units] in time order."""


@op("RNN", since=7, emits=(FULLY_CONNECTED,))
@widened
def rnn(n: Node) -> Iterator[Call]:
    """H = f(W x + R h + B), f being Tanh, Sigmoid or Relu.

    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    Source: ONNX RNN-7, -14, -22; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    yield from _each_way(n, layer(n, ("Tanh",)), _rnn)


@op("GRU", since=7, emits=(FULLY_CONNECTED,))
@widened
def gru(n: Node) -> Iterator[Call]:
    """H = (1 - z) g(candidate) + z h, with the update gate z and the reset gate r.

    The reset gate multiplies h in the candidate; with `linear_before_reset`, it multiplies the
    product of h and the candidate's weights. Activations Sigmoid, Tanh or Relu.
    x [steps, batch, inputs] (`layout` 1: batch first); W and R constant
    Source: ONNX GRU-7, -14, -22; NDK ANEURALNETWORKS_FULLY_CONNECTED.
    """
    yield from _each_way(n, layer(n, ("Sigmoid", "Tanh")), _gru)


def _each_way(
    n: Node, made: Layer, lower: Callable[[Node, Layer, int, Value], Direction]
) -> Iterator[Call]:
    written_out(n, made)
    x = yield from sequence(n, made)
    outputs, states = [], []
    for direction in range(len(made.reverse)):
        hidden = yield from lower(n, made, direction, x)
        outputs.append((yield from over_time(n, made, hidden)))
        states.append((hidden[made.order(direction)[-1]],))
    yield from deliver(n, made, outputs, states)


def _rnn(n: Node, made: Layer, direction: int, x: Value) -> Direction:
    units, (f,) = made.units, made.activations[direction]
    every = slice(0, units)
    biases = bias(n, direction, every, slice(units, 2 * units))
    read = yield from dense(n, x, rows(n, 1, direction, every), biases)
    steps = yield from parts(n, read, 0, made.steps)
    recurrent = rows(n, 2, direction, every)
    h = yield from first_state(n, made, 5, direction)
    hidden = dict[int, Value]()
    for t in made.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from dense(n, h, recurrent, zeros(units))
            total = yield from compute(n, ADD, total, back)
        h = hidden[t] = yield from compute(n, f, total)
    return [hidden[t] for t in range(made.steps)]


def _gru(n: Node, made: Layer, direction: int, x: Value) -> Direction:
    units, (f, _) = made.units, made.activations[direction]
    gates, look = slice(0, 2 * units), _Candidate.of(n, made, direction)
    biases = bias(n, direction, gates, slice(3 * units, 5 * units))
    read = yield from dense(n, x, rows(n, 1, direction, gates), biases)
    steps = yield from parts(n, read, 0, made.steps)
    seen = yield from dense(n, x, rows(n, 1, direction, look.rows), look.read_bias)
    candidates = yield from parts(n, seen, 0, made.steps)
    recurrent = rows(n, 2, direction, gates)
    h = yield from first_state(n, made, 5, direction)
    hidden = dict[int, Value]()
    for t in made.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from dense(n, h, recurrent, zeros(2 * units))
            total = yield from compute(n, ADD, total, back)
        update, reset = yield from parts(n, (yield from compute(n, f, total)), 1, 2)
        candidate = yield from look.candidate(n, candidates[t], reset, h)
        h = hidden[t] = yield from _between(n, candidate, update, h)
    return [hidden[t] for t in range(made.steps)]


def _between(n: Node, candidate: Value, update: Value, h: Value | None) -> Steps:
    """Return (1 - z) c + z h as c + z (h - c); an omitted initial state h is zeros."""
    if h is None:
        kept = yield from compute(n, MUL, update, candidate)
        return (yield from compute(n, SUB, candidate, kept))
    way = yield from compute(n, SUB, h, candidate)
    part = yield from compute(n, MUL, update, way)
    return (yield from compute(n, ADD, candidate, part))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The candidate of a GRU's hidden state.

    after       `linear_before_reset`: the reset gate is applied after the product with weights
    read_bias   the bias of the product with x
    bias        the bias of the product with the state
    """

    after: bool
    rows: slice
    activation: Row
    weights: Constant
    read_bias: Constant
    bias: Constant

    @staticmethod
    def of(n: Node, made: Layer, direction: int) -> _Candidate:
        """Return the candidate of one direction."""
        units = made.units
        gate, back = slice(2 * units, 3 * units), slice(5 * units, 6 * units)
        after = n.integer("linear_before_reset", 0) == 1
        return _Candidate(
            after,
            gate,
            made.activations[direction][1],
            rows(n, 2, direction, gate),
            bias(n, direction, gate) if after else bias(n, direction, gate, back),
            bias(n, direction, back) if after else zeros(units),
        )

    def candidate(self, n: Node, read: Value, reset: Value, h: Value | None) -> Steps:
        """Return the candidate; `read` is its product with x plus `read_bias`."""
        total = read
        if self.after:
            seen = self.bias if h is None else (yield from dense(n, h, self.weights, self.bias))
            part = yield from compute(n, MUL, reset, seen)
            total = yield from compute(n, ADD, read, part)
        elif h is not None:
            part = yield from compute(n, MUL, reset, h)
            back = yield from dense(n, part, self.weights, self.bias)
            total = yield from compute(n, ADD, read, back)
        return (yield from compute(n, self.activation, total))
