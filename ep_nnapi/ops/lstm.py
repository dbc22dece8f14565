"""LSTM, lowered to UNIDIRECTIONAL_SEQUENCE_LSTM or unrolled step by step."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.errors import Reason, Reject
from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.nnapi.call import Call, Given, Row
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import (
    ADD,
    FULLY_CONNECTED,
    LOGISTIC,
    MUL,
    RELU,
    SUB,
    TANH,
    UNIDIRECTIONAL_SEQUENCE_LSTM,
)
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
from ep_nnapi.ops.lib.reverse import backwards
from ep_nnapi.ops.lib.slicing import parts, piece
from ep_nnapi.ops.lib.widening import widened

Direction: TypeAlias = Generator[Call, None, tuple[Value, tuple[Value, ...]]]
"""Generator of one direction's calls; returns its outputs of all steps and final states."""
States: TypeAlias = Sequence[Value | None]
"""The initial H and C; None for zeros."""

_GATES = {"input": 0, "output": 1, "forget": 2, "cell": 3}
"""NNAPI's gate names and their index in ONNX's gate order (iofc)."""
_CODES = {RELU: int(FuseCode.RELU), TANH: 4, LOGISTIC: 6}
"""Codes of the `activation` operand. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM."""


@op("LSTM", since=7, emits=(UNIDIRECTIONAL_SEQUENCE_LSTM, FULLY_CONNECTED))
@widened
def lstm(n: Node) -> Iterator[Call]:
    """C = f c + i g(...), H = o h(C), with the gates i, o and f.

    Activations Sigmoid, Tanh or Relu; f is 1 - i with `input_forget`; peepholes add C to the gates.
    The number of steps is unlimited where UNIDIRECTIONAL_SEQUENCE_LSTM is used.
    x [steps, batch, inputs] (`layout` 1: batch first); W, R and P constant
    Source: ONNX LSTM-7, -14, -22; NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM.
    """
    made = layer(n, ("Sigmoid", "Tanh", "Tanh"))
    outputs, states = [], []
    for direction in range(len(made.reverse)):
        h = yield from first_state(n, made, 5, direction)
        c = yield from first_state(n, made, 6, direction)
        results = _results(n, made, direction, (h, c))
        if results is None:
            output, last = yield from _written_out(n, made, direction, (h, c))
        else:
            output, last = yield from _in_sequence(n, made, direction, (h, c), results)
        outputs.append(output)
        states.append(last)
    yield from deliver(n, made, outputs, states)


def _results(n: Node, made: Layer, direction: int, first: States) -> list[Value] | None:
    """Return the outputs that UNIDIRECTIONAL_SEQUENCE_LSTM has at this level.

    These are output, H and C, or only output. None where it cannot compute this node, or lacks an
    output that the node has.
    """
    f, g, h = made.activations[direction]
    if f != LOGISTIC or g != h or n.integer("input_forget", 0):
        return None
    x = n.input(0)
    output = n.temp(x, (*x.shape[:2], made.units))
    states = [n.temp(x, (made.batch, made.units)) for _ in ("H", "C")]
    if n.takes(_sequence(n, made, direction, x, first, [output, *states])):
        return [output, *states]
    alone = _sequence(n, made, direction, x, first, [output])
    return [output] if n.takes(alone) and not n.has_output(2) else None


def _sequence(
    n: Node, made: Layer, direction: int, x: Value, first: States, results: Sequence[Value]
) -> Call:
    units, operands = made.units, dict[str, Given]()
    for name, gate in _GATES.items():
        own, back = (slice(g * units, (g + 1) * units) for g in (gate, gate + 4))
        operands[f"input_to_{name}_weights"] = rows(n, 1, direction, own)
        operands[f"recurrent_to_{name}_weights"] = rows(n, 2, direction, own)
        operands["cell_bias" if name == "cell" else f"{name}_gate_bias"] = bias(
            n, direction, own, back
        )
        if n.has(7) and name != "cell":
            operands[f"cell_to_{name}_weights"] = rows(n, 7, direction, own)
    nothing = zeros(made.batch * units, x.dtype).reshaped((made.batch, units))
    h, c = (state or nothing for state in first)
    return UNIDIRECTIONAL_SEQUENCE_LSTM(
        x,
        **operands,
        output_state_in=h,
        cell_state_in=c,
        activation=_CODES[made.activations[direction][1]],
        cell_clip=0.0,
        projection_clip=0.0,
        time_major=not made.batch_first,
        out=results,
    )


def _in_sequence(
    n: Node, made: Layer, direction: int, first: States, results: Sequence[Value]
) -> Direction:
    """Emit UNIDIRECTIONAL_SEQUENCE_LSTM; for the reverse direction, reverse input and output."""
    x, time, (output, *states) = n.input(0), 1 if made.batch_first else 0, results
    if made.reverse[direction]:
        x = yield from backwards(n, x, time)
    yield _sequence(n, made, direction, x, first, results)
    if not states and n.has_output(1):
        taken = [range(size) for size in output.shape]
        taken[time] = range(made.steps - 1, made.steps)
        states = [(yield from piece(n, output, taken, (made.batch, made.units)))]
    if made.reverse[direction]:
        output = yield from backwards(n, output, time)
    return output, tuple(states)


def _written_out(n: Node, made: Layer, direction: int, first: States) -> Direction:
    written_out(n, made)
    units, cell = made.units, _Cell.of(n, made, direction)
    every = slice(0, 4 * units)
    biases = bias(n, direction, every, slice(4 * units, 8 * units))
    x = yield from sequence(n, made)
    read = yield from dense(n, x, rows(n, 1, direction, every), biases)
    steps = yield from parts(n, read, 0, made.steps)
    (h, c), hidden = first, dict[int, Value]()
    for t in made.order(direction):
        total = steps[t]
        if h is not None:
            back = yield from dense(n, h, cell.recurrent, zeros(4 * units))
            total = yield from compute(n, ADD, total, back)
        gates = yield from parts(n, total, 1, 4)
        c = yield from cell.memory(n, gates, c)
        h = hidden[t] = yield from cell.output(n, gates[1], c)
    if h is None or c is None:
        raise Reject(Reason.SHAPE, f"{n.input(0).name} has no steps")
    whole = yield from over_time(n, made, [hidden[t] for t in range(made.steps)])
    return whole, (h, c)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One direction's cell.

    recurrent    the weights R of all gates
    peepholes    the weights of C for the input, output and forget gates; empty if none
    activations  f, g and h
    coupled      `input_forget`: the forget gate is 1 - the input gate
    """

    recurrent: Constant
    peepholes: tuple[Constant, ...]
    activations: tuple[Row, ...]
    coupled: bool

    @staticmethod
    def of(n: Node, made: Layer, direction: int) -> _Cell:
        """Return the cell of one direction of a node."""
        units = made.units
        gates = [slice(g * units, (g + 1) * units) for g in range(3)] if n.has(7) else []
        return _Cell(
            rows(n, 2, direction, slice(0, 4 * units)),
            tuple(rows(n, 7, direction, g) for g in gates),
            made.activations[direction],
            n.integer("input_forget", 0) == 1,
        )

    def memory(self, n: Node, gates: Sequence[Value], c: Value | None) -> Steps:
        """Return the next C; `gates`: pre-activation sums of gates i, o, f and the candidate."""
        f, g, _ = self.activations
        i = yield from compute(n, f, (yield from self._looking(n, 0, gates[0], c)))
        new = yield from compute(n, g, gates[3])
        added = yield from compute(n, MUL, i, new)
        if c is None:
            return added
        if self.coupled:
            forget = yield from compute(n, SUB, n.scalar(1, i), i, shape=i.shape)
        else:
            forget = yield from compute(n, f, (yield from self._looking(n, 2, gates[2], c)))
        kept = yield from compute(n, MUL, forget, c)
        return (yield from compute(n, ADD, kept, added))

    def output(self, n: Node, total: Value, c: Value) -> Steps:
        """Return the next H; `total`: the pre-activation sum of the output gate."""
        f, _, h = self.activations
        o = yield from compute(n, f, (yield from self._looking(n, 1, total, c)))
        return (yield from compute(n, MUL, o, (yield from compute(n, h, c))))

    def _looking(self, n: Node, gate: int, total: Value, c: Value | None) -> Steps:
        if not self.peepholes or c is None:
            return total
        seen = yield from compute(n, MUL, c, self.peepholes[gate])
        return (yield from compute(n, ADD, total, seen))
