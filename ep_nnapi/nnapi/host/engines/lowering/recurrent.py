"""Recurrent operations: one node for the whole sequence, or unrolled over time.

ONNX's LSTM computes an LSTM over a sequence where a provider has it and the cell has constant
weights and none of what only NNAPI's has. All else is matrix products, gates and activations of
each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.host.engines.operation import Op
from ep_nnapi.nnapi.host.engines.row import row
from ep_nnapi.nnapi.host.engines.scope import converted, require
from ep_nnapi.nnapi.shapes.recurrent import (
    AUXILIARY,
    BIASES,
    INPUT,
    INPUT_GATE,
    NORM,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
)
from ep_nnapi.nnapi.spec import F16, F32

_MOST_STEPS = 256
"""Steps that are unrolled at most: each adds some twenty nodes to the session."""
_TANH, _SIGMOID = 4, 6
"""Codes of activations beside those of FuseCode. Source: NDK ANEURALNETWORKS_LSTM, input 20."""
_EPSILON = 1e-8
"""Added to the variance by layer normalization, as Android does."""

_NAMES = {FuseCode.RELU: "Relu", _TANH: "Tanh", _SIGMOID: "Sigmoid"}
"""ONNX operators of activations."""
_ONNX_GATES = (0, 3, 1, 2)
"""NNAPI's gates (input, forget, cell, output) in ONNX's order: input, output, forget, cell."""

State: TypeAlias = tuple[str, ...]
"""Values passed to the next step; the first one is the step's output."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a sequence.

    outputs   of all steps in the order of time, [times, batches, units]
    last      the state after the last step; each value has all elements of [batches, units]
    """

    outputs: str
    last: State


@dataclass(frozen=True, slots=True)
class Cell:
    """Operands of one cell, whose names have a common prefix in `spec.py`."""

    op: Op
    prefix: str = ""

    def given(self, name: str) -> bool:
        """True if the operand is there."""
        return self.op.given(self.prefix + name)

    def real(self, name: str) -> str:
        """An operand's numbers."""
        return self.op.real(self.prefix + name)

    def stacked(self, names: Sequence[str]) -> str:
        """Those of the operands that are there, one below the other."""
        there = [self.real(name) for name in names if self.given(name)]
        return self.op.node("Concat", *there, axis=0)

    def activated(self, value: str) -> str:
        """The numbers after the operation's activation."""
        op, activation = self.op, self.op.number("activation")
        if activation == FuseCode.NONE:
            return value
        if activation in _NAMES:
            return op.node(_NAMES[activation], value)
        ends = {FuseCode.RELU1: (-1, 1), FuseCode.RELU6: (0, 6)}
        require(activation in ends, f"activation {activation}")
        return op.node("Clip", value, *(op.array(end) for end in ends[FuseCode(activation)]))

    def clipped(self, value: str, name: str) -> str:
        """The numbers clipped to a threshold, unless that is 0."""
        threshold = float(self.op.scalar(name))
        require(threshold >= 0, f"{name} is negative")
        if threshold == 0:
            return value
        return self.op.node("Clip", value, self.op.array(-threshold), self.op.array(threshold))


@dataclass(frozen=True, slots=True)
class RnnCell(Cell):
    """A basic RNN cell."""

    @property
    def read(self) -> tuple[str, str]:
        """Weights of the input (and of the auxiliary input), and the bias of their products."""
        weights = self.real("weights")
        if self.given("aux_weights"):
            weights = self.op.node("Concat", weights, self.real("aux_weights"), axis=1)
        return weights, self.real("bias")

    @property
    def start(self) -> State:
        """The initial state."""
        return (self.real("hidden_state_in"),)

    def step(self, sums: str, state: State) -> State:
        """The next output, which is the state."""
        recurrent = self.real("recurrent_weights")
        return (self.activated(self.op.node("Gemm", state[0], recurrent, sums, transB=1)),)


@dataclass(frozen=True, slots=True)
class LstmCell(Cell):
    """An LSTM cell; with layer normalization biases are added after it."""

    @property
    def coupled(self) -> bool:
        """True without input gate: it is 1 - forget gate."""
        return not self.given(INPUT_GATE[0])

    @property
    def read(self) -> tuple[str, str]:
        """Weights of the input (and of the auxiliary input), and the bias of their products."""
        weights = self.stacked(INPUT)
        if self.given(AUXILIARY[1]):
            weights = self.op.node("Concat", weights, self.stacked(AUXILIARY), axis=1)
        return weights, "" if self.given(NORM[1]) else self.stacked(BIASES)

    @property
    def start(self) -> State:
        """The initial output and cell state."""
        return self.real("output_state_in"), self.real("cell_state_in")

    def step(self, sums: str, state: State) -> State:
        """The next output and cell state. Source: NDK ANEURALNETWORKS_LSTM."""
        op, (hidden, cell) = self.op, state
        sums = op.node("Gemm", hidden, self.stacked(RECURRENT), sums, transB=1)
        count = 3 if self.coupled else 4
        gates = op.scope.graph.many("Split", count, sums, axis=1, num_outputs=count)
        *entering, forget, candidate, output = gates
        forget = op.node("Sigmoid", self.normalized(self.looking(forget, cell, 1), 1))
        candidate = self.activated(self.normalized(candidate, 2))
        if self.coupled:
            entry = op.node("Sub", op.array(1), forget)
        else:
            entry = op.node("Sigmoid", self.normalized(self.looking(entering[0], cell, 0), 0))
        kept, new = op.node("Mul", forget, cell), op.node("Mul", entry, candidate)
        cell = self.clipped(op.node("Add", kept, new), "cell_clip")
        output = op.node("Sigmoid", self.normalized(self.looking(output, cell, 3), 3))
        hidden = op.node("Mul", output, self.activated(cell))
        if self.given(PROJECTION[0]):
            bias = [self.real(PROJECTION[1])] if self.given(PROJECTION[1]) else []
            hidden = op.node("Gemm", hidden, self.real(PROJECTION[0]), *bias, transB=1)
            hidden = self.clipped(hidden, "projection_clip")
        return hidden, cell

    def looking(self, gate: str, cell: str, number: int) -> str:
        """A gate's sums with the peephole term, if there is one."""
        names = (PEEPHOLE[0], PEEPHOLE[1], "", PEEPHOLE[2])
        if not self.given(names[number]):
            return gate
        return self.op.node("Add", gate, self.op.node("Mul", self.real(names[number]), cell))

    def normalized(self, gate: str, number: int) -> str:
        """A gate's sums after layer normalization and bias, if the cell has them."""
        if not self.given(NORM[number]):
            return gate
        scale, bias = self.real(NORM[number]), self.real(BIASES[number])
        op = self.op
        return op.node("LayerNormalization", gate, scale, bias, axis=-1, epsilon=_EPSILON)

    @property
    def whole(self) -> bool:
        """True if one LSTM node computes a sequence."""
        op, peepholes = self.op, [self.given(name) for name in PEEPHOLE]
        more = (*AUXILIARY, *NORM, *PROJECTION)
        weights = [name for name in (*INPUT, *RECURRENT, *BIASES, *PEEPHOLE) if self.given(name)]
        return (
            op.kernels.fused
            and not self.coupled
            and not any(map(self.given, more))
            and any(peepholes) == all(peepholes)
            and all(op.scope.constant(op.index(self.prefix + name)) for name in weights)
            and op.number("activation") in _NAMES
            and not op.scalar("cell_clip")
        )

    def sequence(self, inputs: str, shape: Sequence[int], *, backward: bool) -> Pass:
        """A pass as one LSTM node. Source: ONNX LSTM-14."""
        op, (times, batches, _) = self.op, shape
        units = op.shape(self.prefix + RECURRENT[1])[0]
        inner = _NAMES[op.number("activation")]
        bias = self.joined([BIASES[gate] for gate in _ONNX_GATES], zeros=4 * units)
        peepholes = [PEEPHOLE[i] for i in (0, 2, 1)]
        outputs, *last = op.scope.graph.many(
            "LSTM",
            3,
            inputs,
            self.joined([INPUT[gate] for gate in _ONNX_GATES]),
            self.joined([RECURRENT[gate] for gate in _ONNX_GATES]),
            bias,
            "",
            *(op.node("Reshape", x, op.sizes((1, batches, units))) for x in self.start),
            *([self.joined(peepholes)] if self.given(PEEPHOLE[0]) else []),
            hidden_size=units,
            direction="reverse" if backward else "forward",
            activations=("Sigmoid", inner, inner),
        )
        joined = op.node("Reshape", outputs, op.sizes((times, batches, units)))
        return Pass(joined, tuple(last))

    def joined(self, names: Sequence[str], zeros: int = 0) -> str:
        """Constant operands one below the other, then that many zeros, after an axis of size 1."""
        operands = [self.op.operand(self.prefix + name) for name in names]

        def make() -> Array:
            parts = [converted(o.array, o.type) for o in operands]
            return np.concatenate([*parts, np.zeros(zeros, np.float32)] if zeros else parts)[None]

        return self.op.scope.weight((*(id(o.value) for o in operands), zeros), make)


AnyCell: TypeAlias = RnnCell | LstmCell


def passed(cell: AnyCell, inputs: str, shape: Sequence[int], *, backward: bool) -> Pass:
    """One pass over `inputs`, [times, batches, size], of that shape."""
    if isinstance(cell, LstmCell) and cell.whole:
        return cell.sequence(inputs, shape, backward=backward)
    op, states = cell.op, unrolled(cell, inputs, shape, backward=backward)
    parts = [op.node("Unsqueeze", state[0], op.sizes([0])) for state in states]
    return Pass(op.node("Concat", *parts, axis=0), states[0 if backward else -1])


def unrolled(cell: AnyCell, inputs: str, shape: Sequence[int], *, backward: bool) -> list[State]:
    """The states after each step, in the order of time.

    inputs   [times, batches, size], of that shape
    """
    op, (times, batches, size) = cell.op, shape
    require(times <= _MOST_STEPS, f"a sequence of {times} steps")
    weights, bias = cell.read
    rows = op.node("Reshape", inputs, op.sizes((times * batches, size)))
    arguments = (rows, weights, bias) if bias else (rows, weights)
    sums = op.node("Gemm", *arguments, transB=1)
    steps = op.scope.graph.many("Split", times, sums, op.sizes([batches] * times), axis=0)
    states, state = [], cell.start
    for each in reversed(steps) if backward else steps:
        state = cell.step(each, state)
        states.append(state)
    return states[::-1] if backward else states


def _single(op: Op, cell: AnyCell) -> State:
    """The state after one step."""
    shape = op.shape("input")
    return unrolled(cell, op.real("input"), (1, *shape), backward=False)[0]


def rnn(op: Op) -> None:
    """RNN step. Source: NDK ANEURALNETWORKS_RNN."""
    (hidden,) = _single(op, RnnCell(op))
    op.keep(hidden, output="hidden_state_out")
    op.keep(op.node("Identity", hidden))


def lstm(op: Op) -> None:
    """LSTM step; the scratch buffer is filled with zeros. Source: NDK ANEURALNETWORKS_LSTM."""
    hidden, cell = _single(op, LstmCell(op))
    scratch = op.node("Expand", op.array(0), op.sizes(op.shape("scratch_buffer")))
    op.keep(scratch, output="scratch_buffer")
    op.keep(hidden, output="output_state_out")
    op.keep(cell, output="cell_state_out")
    op.keep(op.node("Identity", hidden))


def _sequence(op: Op, name: str) -> tuple[str, tuple[int, ...]]:
    """An input sequence as [times, batches, size], and its shape."""
    first, second, size = op.shape(name)
    if op.scalar("time_major"):
        return op.real(name), (first, second, size)
    return op.real(name, (1, 0, 2)), (second, first, size)


def _deliver(op: Op, sequence: str, output: str = "output") -> None:
    """Define an output by [times, batches, units]."""
    op.keep(sequence, None if op.scalar("time_major") else (1, 0, 2), output)


def _one_way(op: Op, cell: AnyCell, last: Sequence[str]) -> None:
    found = passed(cell, *_sequence(op, "input"), backward=False)
    _deliver(op, found.outputs)
    _keep_last(op, found.last, last)


def _keep_last(op: Op, state: State, names: Sequence[str]) -> None:
    """Define the outputs for the last state, if the operation has them."""
    for value, name in zip(state, names, strict=True):
        if op.indexes(name):
            op.keep(op.node("Reshape", value, op.sizes(op.shape(name))), output=name)


def _both_ways(op: Op, kind: type[RnnCell] | type[LstmCell], last: Sequence[str]) -> None:
    """A forward and a backward pass; `last` names the state outputs without prefix."""
    forward, backward = kind(op, "fw_"), kind(op, "bw_")
    inputs, shape = _sequence(op, "input")
    reads = [(inputs, shape), (inputs, shape)]
    if op.given("aux_input"):
        other, other_shape = _sequence(op, "aux_input")
        crossed = forward.given("aux_weights" if kind is RnnCell else AUXILIARY[1])
        if crossed:
            both = op.node("Concat", inputs, other, axis=2)
            reads = [(both, (*shape[:2], shape[2] + other_shape[2]))] * 2
        else:
            reads[1] = (other, other_shape)
    ahead = passed(forward, *reads[0], backward=False)
    back = passed(backward, *reads[1], backward=True)
    if op.scalar("merge_outputs"):
        _deliver(op, op.node("Concat", ahead.outputs, back.outputs, axis=2))
    else:
        _deliver(op, ahead.outputs, "fw_output")
        _deliver(op, back.outputs, "bw_output")
    _keep_last(op, ahead.last, [f"fw_{name}" for name in last])
    _keep_last(op, back.last, [f"bw_{name}" for name in last])


_RNN_STATE = ("hidden_state_out",)
_LSTM_STATE = ("output_state_out", "cell_state_out")


def unidirectional_sequence_rnn(op: Op) -> None:
    """RNN over a sequence. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_RNN."""
    _one_way(op, RnnCell(op), _RNN_STATE)


def unidirectional_sequence_lstm(op: Op) -> None:
    """LSTM over a sequence. Source: NDK ANEURALNETWORKS_UNIDIRECTIONAL_SEQUENCE_LSTM."""
    _one_way(op, LstmCell(op), _LSTM_STATE)


def bidirectional_sequence_rnn(op: Op) -> None:
    """RNN both ways. Source: NDK ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_RNN."""
    _both_ways(op, RnnCell, _RNN_STATE)


def bidirectional_sequence_lstm(op: Op) -> None:
    """LSTM both ways. Source: NDK ANEURALNETWORKS_BIDIRECTIONAL_SEQUENCE_LSTM."""
    _both_ways(op, LstmCell, _LSTM_STATE)


ROWS = (
    row(spec.RNN, rnn, F32, F16),
    row(spec.LSTM, lstm, F32, F16),
    row(spec.UNIDIRECTIONAL_SEQUENCE_RNN, unidirectional_sequence_rnn, F32, F16),
    row(spec.UNIDIRECTIONAL_SEQUENCE_LSTM, unidirectional_sequence_lstm, F32, F16),
    row(spec.BIDIRECTIONAL_SEQUENCE_RNN, bidirectional_sequence_rnn, F32, F16),
    row(spec.BIDIRECTIONAL_SEQUENCE_LSTM, bidirectional_sequence_lstm, F32, F16),
)
