"""Shape inference for recurrent operations, with checks that all tensors of a cell are consistent.

Sizes have names. A pattern lists the named sizes of an operand: `"units inputs"` is a matrix
[units, inputs]. Omitted operands are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    ShapeOperand,
    Shapes,
    Tensor,
    by_name,
    require,
    unify,
)

Sizes: TypeAlias = Mapping[str, Dim]
CellOperands: TypeAlias = Mapping[str, ShapeOperand]

GATES = ("input", "forget", "cell", "output")
ONNX_GATES = (0, 3, 1, 2)
"""Those gates in the order of ONNX: input, output, forget, cell."""
INPUT = tuple(f"input_to_{gate}_weights" for gate in GATES)
RECURRENT = tuple(f"recurrent_to_{gate}_weights" for gate in GATES)
INPUT_GATE = ("input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias")
"""Given all or none; if none, the input gate is 1 - forget gate (CIFG)."""
BIASES = ("input_gate_bias", "forget_gate_bias", "cell_bias", "output_gate_bias")
PEEPHOLE = ("cell_to_input_weights", "cell_to_forget_weights", "cell_to_output_weights")
NORM = tuple(f"{gate}_layer_norm_weights" for gate in GATES)
AUXILIARY = tuple(f"aux_input_to_{gate}_weights" for gate in GATES)
PROJECTION = ("projection_weights", "projection_bias")
LSTM_CELL = {
    **dict.fromkeys(INPUT, "units inputs"),
    **dict.fromkeys(RECURRENT, "units outputs"),
    **dict.fromkeys(AUXILIARY, "units aux_inputs"),
    **dict.fromkeys((*BIASES, *PEEPHOLE, *NORM), "units"),
    "projection_weights": "outputs units",
    "projection_bias": "outputs",
    "output_state_in": "batches outputs",
    "cell_state_in": "batches units",
}
"""Patterns of an LSTM cell's tensors except its input. Source: NDK ANEURALNETWORKS_LSTM."""
RNN_CELL = {
    "weights": "units inputs",
    "recurrent_weights": "units units",
    "bias": "units",
    "aux_weights": "units aux_inputs",
    "hidden_state_in": "batches units",
}
"""Patterns of an RNN cell's tensors except its input. Source: NDK ANEURALNETWORKS_RNN."""
_LSTM_REQUIRED = {"input", *LSTM_CELL} - {*INPUT_GATE, *PEEPHOLE, *NORM, *AUXILIARY, *PROJECTION}
_RNN_REQUIRED = {"input", *RNN_CELL} - {"aux_weights"}
_SEQUENCE_PATTERNS = {True: "times batches", False: "batches times"}
"""Leading dimensions of a sequence, by `time_major`."""
_STATE_PATTERN = "batches"


def agree(patterns: Mapping[str, str], operands: CellOperands) -> Sizes:
    """Return the named sizes; raises ShapeError if two operands disagree on one."""
    sizes: dict[str, Dim] = {}
    for name, pattern in patterns.items():
        operand, names = operands.get(name), pattern.split()
        known = operand.known if isinstance(operand, Tensor) else None
        dims: Dims = (None,) * len(names) if known is None else known
        require(len(dims) == len(names), f"{name} has {len(names)} dimensions, not {len(dims)}")
        for what, size in zip(names, dims, strict=True):
            before = sizes.setdefault(what, size)
            agreed = before is None or size is None or before == size
            require(agreed, f"{name} has {size} {what}, others have {before}")
            sizes[what] = size if before is None else before
    return sizes


def lstm_cell(operands: CellOperands, order: str = _STATE_PATTERN) -> Sizes:
    """The named sizes of an LSTM cell; raises ShapeError if operands are missing."""
    _need(_LSTM_REQUIRED, operands)
    sizes = agree({**_read(order), **LSTM_CELL}, operands)
    first = 0 if _all_or_none(INPUT_GATE, operands) else 1
    for names in (PEEPHOLE, NORM, AUXILIARY):
        _all_or_none(names[first:], operands)
    for names in (NORM, AUXILIARY) if first else ():
        require(names[0] not in operands, f"{names[0]} needs {INPUT_GATE[0]}")
    if "projection_weights" in operands:
        return sizes
    require("projection_bias" not in operands, "projection_bias needs projection_weights")
    return {**sizes, "outputs": unify(sizes["outputs"], sizes["units"])}


def rnn_cell(operands: CellOperands, order: str = _STATE_PATTERN) -> Sizes:
    """The named sizes of an RNN cell; raises ShapeError if operands are missing."""
    _need(_RNN_REQUIRED, operands)
    return agree({**_read(order), **RNN_CELL}, operands)


def lstm(**operands: ShapeOperand) -> Shapes:
    """A scratch buffer, both states and the output."""
    sizes = lstm_cell(operands)
    gates = len(GATES) if INPUT_GATE[0] in operands else len(GATES) - 1
    scratch = None if sizes["units"] is None else gates * sizes["units"]
    output, cell = _lstm_states(sizes)
    return [(sizes["batches"], scratch), output, cell, output]


def quantized_lstm(**operands: ShapeOperand) -> Shapes:
    """Both states and the output."""
    output, cell = _lstm_states(lstm_cell(operands))
    return [output, cell, output]


def quantized_16bit_lstm(**operands: ShapeOperand) -> Shapes:
    """The cell's state and the output."""
    _need(INPUT_GATE, operands)
    output, cell = _lstm_states(lstm_cell(operands))
    return [cell, output]


def unidirectional_sequence_lstm(time_major: bool, **operands: ShapeOperand) -> Shapes:
    """The outputs of all time steps, and the last states."""
    order = _SEQUENCE_PATTERNS[time_major]
    sizes = lstm_cell(operands, order)
    return [_of(sizes, f"{order} outputs"), *_lstm_states(sizes)]


def bidirectional_sequence_lstm(
    time_major: bool, merge_outputs: bool, **operands: ShapeOperand
) -> Shapes:
    """The outputs of both directions, merged on request, and the last states of both cells."""
    order = _SEQUENCE_PATTERNS[time_major]
    forward, backward = (lstm_cell(cell, order) for cell in _linked(operands, AUXILIARY[1], order))
    outputs = _of(forward, f"{order} outputs"), _of(backward, f"{order} outputs")
    states = (*_lstm_states(forward), *_lstm_states(backward))
    return [*(_merged(*outputs) if merge_outputs else outputs), *states]


def rnn(**operands: ShapeOperand) -> Shapes:
    """The state and the output, of the same shape."""
    state = _of(rnn_cell(operands), "batches units")
    return [state, state]


def unidirectional_sequence_rnn(time_major: int, **operands: ShapeOperand) -> Shapes:
    """The outputs of all time steps, and the last state."""
    require(time_major in (0, 1), f"time_major {time_major} is neither 0 nor 1")
    order = _SEQUENCE_PATTERNS[bool(time_major)]
    sizes = rnn_cell(operands, order)
    return [_of(sizes, f"{order} units"), _of(sizes, "batches units")]


def bidirectional_sequence_rnn(
    time_major: bool, merge_outputs: bool, **operands: ShapeOperand
) -> Shapes:
    """The outputs of both directions, merged on request, and the last states of both cells."""
    order = _SEQUENCE_PATTERNS[time_major]
    cells = [rnn_cell(cell, order) for cell in _linked(operands, "aux_weights", order)]
    outputs = [_of(sizes, f"{order} units") for sizes in cells]
    states = [_of(sizes, "batches units") for sizes in cells]
    return [*(_merged(*outputs) if merge_outputs else outputs), *states]


def svdf(rank: int, **operands: ShapeOperand) -> Shapes:
    """The state of all filters, and the output.

    The state has `memory` elements for each filter; the last of them is not read.
    """
    _need(("input", "weights_feature", "weights_time", "state_in"), operands)
    patterns = {
        "input": "batches inputs",
        "weights_feature": "filters inputs",
        "weights_time": "filters memory",
        "bias": "units",
        "state_in": "batches states",
    }
    sizes = agree(patterns, operands)
    filters, memory = sizes["filters"], sizes["memory"]
    units, states = sizes["units"], sizes["states"]
    require(rank > 0, f"rank {rank} is not positive")
    if filters is not None:
        require(filters % rank == 0, f"{filters} filters do not divide into groups of rank {rank}")
        units = unify(units, filters // rank)
        states = unify(states, None if memory is None else filters * memory)
    return [(sizes["batches"], states), (sizes["batches"], units)]


def cell_operands(prefix: str, operands: CellOperands) -> dict[str, ShapeOperand]:
    """The operands whose names begin with `prefix`; the prefix is removed."""
    return {k.removeprefix(prefix): v for k, v in operands.items() if k.startswith(prefix)}


def _linked(operands: CellOperands, weights: str, order: str) -> tuple[CellOperands, CellOperands]:
    """The operands of the forward and the backward cell, by linking mode.

    Without `aux_input` both cells read the input. With `aux_input` and its `weights`, both read
    both (cross linking). With `aux_input` only, the backward cell reads it instead of the input
    (parallel linking).
    """
    forward, backward = cell_operands("fw_", operands), cell_operands("bw_", operands)
    crossed = weights in forward
    require(crossed == (weights in backward), f"fw_{weights} and bw_{weights} belong together")
    _need(("input", "aux_input") if crossed else ("input",), operands)
    agree(_read(order), operands)
    given = {name: operands[name] for name in ("input", "aux_input") if name in operands}
    if crossed or len(given) == 1:
        return {**forward, **given}, {**backward, **given}
    return {**forward, "input": given["input"]}, {**backward, "input": given["aux_input"]}


def _read(order: str) -> dict[str, str]:
    """The patterns of a cell's input and auxiliary input."""
    return {"input": f"{order} inputs", "aux_input": f"{order} aux_inputs"}


def _need(names: Collection[str], operands: CellOperands) -> None:
    for name in sorted(names):
        require(name in operands, f"operand {name} is missing, its value is required")


def _all_or_none(names: Collection[str], operands: CellOperands) -> bool:
    """Return True if all are given, False if none; raises ShapeError if only some are."""
    present = [name for name in names if name in operands]
    missing = [name for name in names if name not in operands]
    require(not present or not missing, f"{' '.join(present[:1])} needs {' '.join(missing[:1])}")
    return bool(present)


def _of(sizes: Sizes, pattern: str) -> Dims:
    return tuple(sizes[what] for what in pattern.split())


def _lstm_states(sizes: Sizes) -> tuple[Dims, Dims]:
    return _of(sizes, LSTM_CELL["output_state_in"]), _of(sizes, LSTM_CELL["cell_state_in"])


def _merged(forward: Dims, backward: Dims) -> tuple[Dims]:
    """Outputs of both directions concatenated along the last axis."""
    both = forward[-1], backward[-1]
    return ((*forward[:-1], None if None in both else sum(size or 0 for size in both)),)


SHAPES = by_name(
    *(lstm, quantized_lstm, quantized_16bit_lstm, rnn, svdf),
    *(unidirectional_sequence_lstm, bidirectional_sequence_lstm),
    *(unidirectional_sequence_rnn, bidirectional_sequence_rnn),
)
