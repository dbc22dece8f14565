"""Cells of recurrent operations, and passes of a cell over a sequence.

ONNX's LSTM and RNN compute one over a sequence where a provider has them and the cell has constant
weights and none of what only NNAPI's has. All else is matrix products, gates and activations of
each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ep_nnapi.nnapi.codes import FuseCode
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
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.scope import require

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

_RNN_WEIGHTS = ("weights", "recurrent_weights", "bias")
"""Operands of an RNN: weights of the inputs, of the state, and the bias."""

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

    def fits(self, weights: Sequence[str]) -> bool:
        """True if a provider's node may have these weights, as constants, and the activation."""
        op = self.op
        constant = all(op.scope.constant(op.index(self.prefix + name)) for name in weights)
        return op.kernels.fused and constant and op.number("activation") in _NAMES

    def joined(self, names: Sequence[str], zeros: int = 0) -> str:
        """The constant operands of these names, as `Scope.stacked`."""
        return self.op.scope.stacked([self.op.index(self.prefix + n) for n in names], zeros)

    def in_one_node(
        self,
        op_type: str,
        arguments: Sequence[str],
        start: State,
        shape: Sequence[int],
        *,
        backward: bool,
        peepholes: Sequence[str] = (),
    ) -> Pass:
        """A pass as one node.

        arguments   inputs, weights, recurrent weights and bias, as ONNX has them
        shape       [times, batches, units]
        """
        op, (_, batches, units) = self.op, shape
        inner = _NAMES[op.number("activation")]
        state = (1, batches, units)
        outputs, *last = op.scope.graph.many(
            op_type,
            1 + len(start),
            *arguments,
            "",
            *(op.reshape(x, state) for x in start),
            *peepholes,
            hidden_size=units,
            direction="reverse" if backward else "forward",
            activations=("Sigmoid", inner, inner) if op_type == "LSTM" else (inner,),
        )
        op.scope.graph.shapes |= dict.fromkeys(last, state)
        return Pass(op.reshape(outputs, shape), tuple(last))


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

    @property
    def whole(self) -> bool:
        """True if one RNN node computes a sequence."""
        return not self.given("aux_weights") and self.fits(_RNN_WEIGHTS)

    def sequence(self, inputs: str, shape: Sequence[int], *, backward: bool) -> Pass:
        """A pass as one RNN node. Source: ONNX RNN-14."""
        units = self.op.shape(self.prefix + _RNN_WEIGHTS[1])[0]
        parts = [self.joined([name]) for name in _RNN_WEIGHTS[:2]]
        arguments = (inputs, *parts, self.joined(["bias"], zeros=units))
        ends = (*shape[:2], units)
        return self.in_one_node("RNN", arguments, self.start, ends, backward=backward)


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
        peepholes = [self.given(name) for name in PEEPHOLE]
        more = (*AUXILIARY, *NORM, *PROJECTION)
        weights = [name for name in (*INPUT, *RECURRENT, *BIASES, *PEEPHOLE) if self.given(name)]
        return (
            not self.coupled
            and not any(map(self.given, more))
            and any(peepholes) == all(peepholes)
            and self.fits(weights)
            and not self.op.scalar("cell_clip")
        )

    def sequence(self, inputs: str, shape: Sequence[int], *, backward: bool) -> Pass:
        """A pass as one LSTM node. Source: ONNX LSTM-14."""
        units = self.op.shape(self.prefix + RECURRENT[1])[0]
        arguments = (
            inputs,
            self.joined([INPUT[gate] for gate in _ONNX_GATES]),
            self.joined([RECURRENT[gate] for gate in _ONNX_GATES]),
            self.joined([BIASES[gate] for gate in _ONNX_GATES], zeros=4 * units),
        )
        looking = self.given(PEEPHOLE[0])
        return self.in_one_node(
            "LSTM",
            arguments,
            self.start,
            (*shape[:2], units),
            backward=backward,
            peepholes=[self.joined([PEEPHOLE[i] for i in (0, 2, 1)])] if looking else (),
        )


AnyCell: TypeAlias = RnnCell | LstmCell


def passed(cell: AnyCell, inputs: str, shape: Sequence[int], *, backward: bool) -> Pass:
    """One pass over `inputs`, [times, batches, size], of that shape."""
    if cell.whole:
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
    rows = op.reshape(inputs, (times * batches, size))
    arguments = (rows, weights, bias) if bias else (rows, weights)
    sums = op.node("Gemm", *arguments, transB=1)
    steps = op.scope.graph.many("Split", times, sums, op.sizes([batches] * times), axis=0)
    states, state = [], cell.start
    for each in reversed(steps) if backward else steps:
        state = cell.step(each, state)
        states.append(state)
    return states[::-1] if backward else states
