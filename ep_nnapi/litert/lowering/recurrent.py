"""LSTMs, RNNs and SVDF, step by step: LiteRT's own operators keep their state between runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ep_nnapi.litert.flat_operator import FlatTensor
from ep_nnapi.litert.flat_sizes import fixed
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.shapes.recurrent import (
    AUXILIARY,
    BIASES,
    INPUT,
    INPUT_GATE,
    NORM,
    ONNX_GATES,
    PEEPHOLE,
    PROJECTION,
    RECURRENT,
)
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import row

_MOST_STEPS = 256
"""Steps that are unrolled at most: each adds some twenty operators."""
_EPSILON = 1e-8
"""Added to the variance by layer normalization, as Android does."""
_ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 6: "LOGISTIC"}
"""Operators by the codes of activations. Source: NDK ANEURALNETWORKS_LSTM, input 20."""

States: TypeAlias = Sequence[int]
"""Tensors of a cell's state [batches, …]; the first one is the step's output."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A recurrent cell of an operation, whose operands have a common prefix."""

    op: FlatOp
    prefix: str = ""
    _stacks: dict[tuple[str, ...], int] = field(default_factory=dict)

    def given(self, name: str) -> bool:
        """True if an operand is given."""
        return self.op.given(self.prefix + name)

    def tensor(self, name: str) -> int:
        """The tensor of an operand."""
        return self.op.tensor(self.prefix + name)

    def stacked(self, names: tuple[str, ...]) -> int:
        """One tensor of the gates' operands with these names, concatenated along axis 0.

        Without those that are omitted; -1 if all are.
        """
        if names not in self._stacks:
            self._stacks[names] = self._made(names)
        return self._stacks[names]

    def _made(self, names: tuple[str, ...]) -> int:
        given = (names[gate] for gate in ONNX_GATES if self.given(names[gate]))
        indexes = [self.op.index(self.prefix + name) for name in given]
        operands = [self.op.scope.operand(i) for i in indexes]
        if len(indexes) < 2:
            return self.op.scope.value(indexes[0]) if indexes else -1
        shapes = [self.op.scope.shape(i) for i in indexes]
        result = FlatTensor(np.dtype(np.float32), (sum(s[0] for s in shapes), *shapes[0][1:]))
        if not all(self.op.scope.constant(i) for i in indexes):
            parts = [self.op.scope.value(i) for i in indexes]
            return self.op.computed("CONCATENATION", parts, result, axis=0)

        def load() -> Array:
            return np.concatenate([o.array for o in operands]).astype(np.float32)

        return self.op.graph.constant(result, tuple(id(o.value) for o in operands), load)

    def product(self, rows: int, weights: int, bias: int = -1) -> int:
        """Rows [n, size] times weights [units, size], plus bias."""
        tensors = self.op.graph.tensors
        result = replace(tensors[rows], shape=(tensors[rows].shape[0], tensors[weights].shape[0]))
        return self.op.computed("FULLY_CONNECTED", [rows, weights, bias], result)

    def both(self, operator: str, first: int, second: int | float) -> int:
        """ADD, SUB and the like; the second is a number or a tensor that fits into the first."""
        if isinstance(second, float):
            second = self.op.graph.array(np.array([second], np.float32))
        return self.op.computed(operator, [first, second], self.op.graph.tensors[first])

    def unary(self, operator: str, value: int) -> int:
        """An operator of one tensor that has no options."""
        return self.op.computed(operator, [value], self.op.graph.tensors[value])

    def activated(self, value: int) -> int:
        """The operation's activation."""
        code = self.op.number("activation")
        require(code == FuseCode.NONE or code in _ACTIVATIONS, f"activation {code}")
        return self.unary(_ACTIVATIONS[code], value) if code else value

    def clipped(self, value: int, name: str) -> int:
        """Values between minus and plus a threshold, if that is not 0."""
        limit = float(self.op.scalar(name))
        if limit:
            value = self.both("MINIMUM", self.both("MAXIMUM", value, -limit), limit)
        return value


class Rnn(Cell):
    """An RNN cell; its state is its output."""

    __slots__ = ()
    states = ("hidden_state_in",)
    auxiliary = "aux_weights"

    def sums(self, rows: int, auxiliary: int | None) -> int:
        """What the units' sums have of the inputs [n, size] of one or more steps."""
        total = self.product(rows, self.tensor("weights"), self.tensor("bias"))
        if auxiliary is None:
            return total
        return self.both("ADD", total, self.product(auxiliary, self.tensor("aux_weights")))

    def step(self, sums: int, states: States) -> States:
        """The next state."""
        total = self.product(states[0], self.tensor("recurrent_weights"))
        return (self.activated(self.both("ADD", sums, total)),)


class Lstm(Cell):
    """An LSTM cell; its states are the output and the cell's state."""

    __slots__ = ()
    states = ("output_state_in", "cell_state_in")
    auxiliary = AUXILIARY[1]

    def sums(self, rows: int, auxiliary: int | None) -> int:
        """What the gates' sums have of the inputs [n, size] of one or more steps."""
        bias = -1 if self.given(NORM[1]) else self.stacked(BIASES)
        total = self.product(rows, self.stacked(INPUT), bias)
        if auxiliary is None:
            return total
        return self.both("ADD", total, self.product(auxiliary, self.stacked(AUXILIARY)))

    def step(self, sums: int, states: States) -> States:
        """The next states. Source: NDK ANEURALNETWORKS_LSTM."""
        hidden, cell = states
        total = self.both("ADD", sums, self.product(hidden, self.stacked(RECURRENT)))
        gates = self._split(total, self.op.graph.tensors[cell])
        forget, candidate = self._gate(gates[-2], 1, cell), self._gate(gates[-1], 2, None)
        kept = self.both("MUL", forget, cell)
        candidate = self.activated(candidate)
        if self.given(INPUT_GATE[0]):
            new = self.both("MUL", self._gate(gates[0], 0, cell), candidate)
        else:
            new = self.both("SUB", candidate, self.both("MUL", candidate, forget))
        cell = self.clipped(self.both("ADD", kept, new), "cell_clip")
        hidden = self.both("MUL", self._gate(gates[-3], 3, cell), self.activated(cell))
        if self.given(PROJECTION[0]):
            bias = self.tensor(PROJECTION[1]) if self.given(PROJECTION[1]) else -1
            hidden = self.product(hidden, self.tensor(PROJECTION[0]), bias)
            hidden = self.clipped(hidden, "projection_clip")
        return hidden, cell

    def _split(self, total: int, result: FlatTensor) -> list[int]:
        graph = self.op.graph
        count = graph.tensors[total].shape[1] // result.shape[1]
        parts = [graph.tensor(result) for _ in range(count)]
        graph.operator("SPLIT", [graph.ints([1]), total], parts, {"numSplits": count})
        return parts

    def _gate(self, total: int, gate: int, cell: int | None) -> int:
        """A gate of its sums: with peephole and normalization, if there are any, and logistic.

        cell   the state that the gate sees; None for the candidate, which has no logistic either
        """
        if cell is not None and self.given(PEEPHOLE[(0, 1, 2, 2)[gate]]):
            seen = self.both("MUL", cell, self.tensor(PEEPHOLE[(0, 1, 2, 2)[gate]]))
            total = self.both("ADD", total, seen)
        if self.given(NORM[gate]):
            total = self.both("MUL", self._normalized(total), self.tensor(NORM[gate]))
            total = self.both("ADD", total, self.tensor(BIASES[gate]))
        return total if cell is None else self.unary("LOGISTIC", total)

    def _normalized(self, total: int) -> int:
        whole = self.op.graph.tensors[total]
        each, axis = replace(whole, shape=(whole.shape[0], 1)), self.op.graph.ints([1])

        def mean(value: int) -> int:
            return self.op.computed("MEAN", [value, axis], each, keepDims=True)

        centred = self.both("SUB", total, mean(total))
        variance = self.both("ADD", mean(self.both("MUL", centred, centred)), _EPSILON)
        return self.both("MUL", centred, self.unary("RSQRT", variance))


CellType: TypeAlias = Callable[..., "Rnn | Lstm"]


def _single(kind: CellType, outputs: Sequence[str], op: FlatOp) -> None:
    """One step; `outputs`: names of those of the states. LSTM's scratch buffer is zeros."""
    cell = kind(op)
    states = cell.step(cell.sums(op.tensor("input"), None), [*map(op.tensor, cell.states)])
    op.finish(states[0], output="output")
    for value, name in zip(states, outputs, strict=True):
        op.finish(value, output=name)
    if "scratch_buffer" in op.named.outputs:
        zeros = np.zeros(op.shape("scratch_buffer"), np.float32)
        op.finish(op.graph.array(zeros), output="scratch_buffer")


def _over(cell: Rnn | Lstm, inputs: Sequence[int], axis: int, *, back: bool) -> tuple[int, States]:
    """The outputs of all steps, stacked along the axis of time, and the last states.

    inputs   the input and the auxiliary one, if the cell reads that too
    back     True for the last step first
    """
    op, graph = cell.op, cell.op.graph
    given = [graph.tensors[value] for value in inputs]
    steps, batches = given[0].shape[axis], given[0].shape[1 - axis]
    fixed(steps)
    require(steps <= _MOST_STEPS, f"a sequence of {steps} steps")
    rows = [
        op.graph.reshaped(v, (steps * batches, t.shape[2]))
        for v, t in zip(inputs, given, strict=True)
    ]
    sums = cell.sums(rows[0], rows[1] if len(rows) > 1 else None)
    width = graph.tensors[sums].shape[1]
    whole = op.graph.reshaped(sums, (*given[0].shape[:2], width))
    each = [graph.tensor(replace(given[0], shape=(batches, width))) for _ in range(steps)]
    graph.operator("UNPACK", [whole], each, {"num": steps, "axis": axis})
    states: States = [cell.tensor(name) for name in cell.states]
    outputs = []
    for part in reversed(each) if back else each:
        states = cell.step(part, states)
        outputs.append(states[0])
    size = graph.tensors[outputs[0]].shape[1]
    result = replace(given[0], shape=(*given[0].shape[:2], size))
    stacked = outputs[::-1] if back else outputs
    fields = {"axis": axis, "valuesCount": steps}
    return op.computed("PACK", stacked, result, **fields), states


def _sequence(kind: CellType, op: FlatOp) -> None:
    """All steps in one direction."""
    cell = kind(op)
    axis = 0 if op.scalar("time_major") else 1
    output, states = _over(cell, [op.tensor("input")], axis, back=False)
    op.finish(output)
    _finish_states(op, "", cell.states, states)


def _finish_states(op: FlatOp, prefix: str, names: Sequence[str], states: States) -> None:
    for name, value in zip(names, states, strict=True):
        output = f"{prefix}{name.removesuffix('in')}out"
        if output in op.named.outputs:
            op.finish(value, output=output)


def _both_ways(kind: CellType, op: FlatOp) -> None:
    """All steps in both directions; what the backward cell reads is said in `shapes.recurrent`."""
    axis, outputs = 0 if op.scalar("time_major") else 1, []
    for prefix in ("fw_", "bw_"):
        cell = kind(op, prefix)
        every = [op.tensor(name) for name in ("input", "aux_input") if op.given(name)]
        read = every if cell.given(cell.auxiliary) else every[-1:] if prefix == "bw_" else every[:1]
        output, states = _over(cell, read, axis, back=prefix == "bw_")
        outputs.append(output)
        _finish_states(op, prefix, cell.states, states)
    if op.scalar("merge_outputs"):
        result = op.described(signed=False)
        op.finish(op.computed("CONCATENATION", outputs, result, axis=2))
        return
    for name, value in zip(("fw_output", "bw_output"), outputs, strict=True):
        op.finish(value, output=name)


def svdf(op: FlatOp) -> None:
    """Weights each filter's recent results by time; `rank` filters are summed per unit."""
    cell, graph = Cell(op), op.graph
    filters, memory = op.shape("weights_time")
    batches, rank = op.shape("input")[0], op.number("rank")
    require(memory > 1, "its filters have no memory")
    whole = FlatTensor(np.dtype(np.float32), (batches, filters, memory))
    kept = replace(whole, shape=(batches, filters, memory - 1))

    def sliced(value: int, start: int) -> int:
        ends = [graph.ints((0, 0, start)), graph.ints(kept.shape)]
        return op.computed("SLICE", [value, *ends], kept)

    def summed(value: int) -> int:
        result = replace(whole, shape=graph.tensors[value].shape[:2])
        return op.computed("SUM", [value, graph.ints([2])], result, keepDims=False)

    newest = cell.product(op.tensor("input"), op.tensor("weights_feature"))
    parts = [sliced(op.graph.reshaped(op.tensor("state_in"), whole.shape), 0)]
    parts.append(op.graph.reshaped(newest, (batches, filters, 1)))
    results = op.computed("CONCATENATION", parts, whole, axis=2)
    total = summed(cell.both("MUL", results, op.tensor("weights_time")))
    total = summed(op.graph.reshaped(total, (batches, filters // rank, rank)))
    if op.given("bias"):
        total = cell.both("ADD", total, op.tensor("bias"))
    op.finish(cell.activated(total))
    paddings = graph.array(np.array([[0, 0], [0, 0], [0, 1]], np.int32))
    moved = op.computed("PAD", [sliced(results, 1), paddings], whole)
    op.finish(op.graph.reshaped(moved, op.shape("state_in")), output="state_out")


ROWS = (
    row(spec.RNN, partial(_single, Rnn, ("hidden_state_out",)), F32),
    row(spec.LSTM, partial(_single, Lstm, ("output_state_out", "cell_state_out")), F32),
    row(spec.UNIDIRECTIONAL_SEQUENCE_RNN, partial(_sequence, Rnn), F32),
    row(spec.UNIDIRECTIONAL_SEQUENCE_LSTM, partial(_sequence, Lstm), F32),
    row(spec.BIDIRECTIONAL_SEQUENCE_RNN, partial(_both_ways, Rnn), F32),
    row(spec.BIDIRECTIONAL_SEQUENCE_LSTM, partial(_both_ways, Lstm), F32),
    row(spec.SVDF, svdf, F32),
)
