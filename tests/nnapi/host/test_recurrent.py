"""RNN, LSTM and their sequences against the NDK's equations in float64."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.kernels import recurrent
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.signature import OperationSpec
from tests.nnapi.host import recurrent_cells as cells
from tests.nnapi.host.oracle import F32, FLOATS, REFERENCE, RUNTIME, compare, run, single, store
from tests.nnapi.host.recurrent_cells import FUNCTIONS, OPTIONS, SCALARS, drawn, side

BATCHES, INPUTS, UNITS = 2, 4, 6
TIMES = 5
ATOL = 3e-6
"""Of float32: sums of some ten products, several times over, normalized among few units."""


def cell(options=(), prefix="", aux=0, inputs=INPUTS):
    """An LSTM's weights and states in."""
    outputs = 3 if "projection" in options else UNITS
    found = cells.weights(inputs, UNITS, outputs, options=options, aux=aux, prefix=prefix)
    found |= {f"{prefix}output_state_in": drawn(BATCHES, outputs, salt=1)}
    return found | {f"{prefix}cell_state_in": drawn(BATCHES, UNITS, salt=2)}


def rnn_cell(options=(), prefix="", aux=0, inputs=INPUTS):
    """An RNN's weights and state in, of one unit less on the way back."""
    units = UNITS - (prefix == "bw_")
    found = cells.rnn_weights(inputs, units, aux, prefix)
    return found | {f"{prefix}hidden_state_in": drawn(BATCHES, units, salt=1) / 2}


@dataclass(frozen=True)
class Kind:
    """The operations of a kind of cell: one step, a sequence and both directions of one.

    flag   the type of a sequence's `time_major`
    """

    one: OperationSpec
    sequence: OperationSpec
    both: OperationSpec
    cell: Callable
    steps: Callable
    scalars: dict[str, float]
    flag: type


RNN = Kind(
    *(spec.RNN, spec.UNIDIRECTIONAL_SEQUENCE_RNN, spec.BIDIRECTIONAL_SEQUENCE_RNN),
    *(rnn_cell, cells.rnn_steps, {"activation": 1}, int),
)
LSTM = Kind(
    *(spec.LSTM, spec.UNIDIRECTIONAL_SEQUENCE_LSTM, spec.BIDIRECTIONAL_SEQUENCE_LSTM),
    *(cell, cells.steps, SCALARS, bool),
)
TYPES = pytest.mark.parametrize("code", FLOATS, ids=lambda code: code.name)
KINDS = pytest.mark.parametrize("kind", [RNN, LSTM], ids=["RNN", "LSTM"])
CELLS = pytest.mark.parametrize(
    ("kind", "options"),
    [(RNN, ()), *((LSTM, options) for options in OPTIONS.values())],
    ids=["RNN", *OPTIONS],
)
MAJOR = pytest.mark.parametrize("time_major", [True, False], ids=["time", "batch"])


def stored(tensors, code):
    return {name: store(numbers, code) for name, numbers in tensors.items()}


def reals(operands):
    return {name: operand.real for name, operand in operands.items()}


def everything(row, *given):
    """All operands of an operation, None for those that are left out."""
    found = dict.fromkeys(param.name for param in row.input_params[0])
    for operands in given:
        found |= operands
    return found


def check(row, operands, expected, code, what=""):
    """Asserts the outputs, with weights as inputs and as constants."""
    outputs = [Operand(code)] * len(expected)
    for constant in (False, True):
        results = run(row, operands, *outputs, constant=constant)
        for n, (result, numbers) in enumerate(zip(results, expected, strict=True)):
            where = f"{row}{what} output {n}, constant={constant}"
            compare(result, Operand(code), numbers, ATOL, where)


def ordered(sequence, time_major):
    """A sequence [times, batches, ...] as the operation takes it."""
    return sequence if time_major else sequence.swapaxes(0, 1)


def check_one(kind, options, code, scalars):
    tensors = stored({"input": drawn(BATCHES, INPUTS)} | kind.cell(options), code)
    w = reals(tensors)
    _, *states = kind.steps(w, w["input"][np.newaxis], scalars)
    gates = 3 if "coupled" in options else 4
    scratch = [np.zeros((BATCHES, gates * UNITS))] * (kind is LSTM)
    given = everything(kind.one, tensors, scalars)
    check(kind.one, given, [*scratch, *states, states[0]], code)


@TYPES
@CELLS
def test_one_step_matches(kind, options, code):
    check_one(kind, options, code, kind.scalars)


@TYPES
@KINDS
@pytest.mark.parametrize("activation", FUNCTIONS)
def test_activations(activation, kind, code):
    check_one(kind, (), code, kind.scalars | {"activation": activation})


@TYPES
@pytest.mark.parametrize(("cell_clip", "projection_clip"), [(0.25, 0.0), (0.0, 0.125), (0.5, 0.5)])
def test_lstm_clips(cell_clip, projection_clip, code):
    scalars = SCALARS | {"cell_clip": cell_clip, "projection_clip": projection_clip}
    check_one(LSTM, ("projection",), code, scalars)


def test_lstm_of_level_1_has_no_operands_for_normalization():
    tensors = stored({"input": drawn(BATCHES, INPUTS)} | cell(), F32)
    w = reals(tensors)
    _, h, c = cells.steps(w, w["input"][np.newaxis])
    given = everything(spec.LSTM, tensors, SCALARS)
    short = {name: v for name, v in given.items() if not name.endswith("layer_norm_weights")}
    check(spec.LSTM, short, [np.zeros((BATCHES, 4 * UNITS)), h, c, h], F32)


def test_operands_may_be_left_out_of_one_run():
    """A run without the input gate's weights, which are inputs, is one of another cell."""
    whole = cell(("projection",)) | {"input": drawn(BATCHES, INPUTS)}
    tensors = stored(whole, F32)
    given = everything(spec.LSTM, tensors, SCALARS)
    model, fed = single(spec.LSTM, given, *[Operand(F32)] * 4)
    compiled = RUNTIME.compile(model, REFERENCE)
    names = [name for name in given if name in whole]
    absent = {"input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias"}
    for missing in (set(), absent, set()):
        feed = [None if n in missing else array for n, array in zip(names, fed, strict=True)]
        scratch, _, state, output = compiled.run(feed)
        w = {name: v for name, v in reals(tensors).items() if name not in missing}
        _, h, c = cells.steps(w, w["input"][np.newaxis])
        assert scratch.shape == (BATCHES, (3 if missing else 4) * UNITS)
        compare(output, Operand(F32), h, ATOL, f"without {missing}")
        compare(state, Operand(F32), c, ATOL, f"without {missing}")


@MAJOR
def test_scalars_may_be_inputs(time_major):
    """The activation, the clips and the order are known when it runs, and only then the shapes."""
    sequence = ordered(drawn(TIMES, BATCHES, INPUTS), time_major)
    tensors = stored({"input": sequence} | cell(), F32)
    row = spec.UNIDIRECTIONAL_SEQUENCE_LSTM
    given = everything(row, tensors, SCALARS, {"time_major": time_major})
    model, fed = single(row, given, Operand(F32))
    scalars = [
        i for i, o in enumerate(model.operands) if not o.type.tensor and isinstance(o.value, Data)
    ]
    operands = [replace(o, value=None) if i in scalars else o for i, o in enumerate(model.operands)]
    model_inputs = (*model.inputs, *scalars)
    later = replace(model, operands=tuple(operands), inputs=model_inputs)
    values = [model.operands[i].array for i in scalars]
    (output,) = RUNTIME.compile(later, REFERENCE).run([*fed, *values])
    w = reals(tensors)
    expected, *_ = cells.steps(w, ordered(w["input"], time_major))
    compare(output, Operand(F32), ordered(expected, time_major), ATOL, "")


@TYPES
@CELLS
@MAJOR
@pytest.mark.parametrize("states", [False, True], ids=["", "states"])
def test_sequence_matches(kind, options, time_major, states, code):
    sequence = ordered(drawn(TIMES, BATCHES, INPUTS), time_major)
    tensors = stored({"input": sequence} | kind.cell(options), code)
    w = reals(tensors)
    outputs, *ends = kind.steps(w, ordered(w["input"], time_major), kind.scalars)
    order = {"time_major": kind.flag(time_major)}
    given = everything(kind.sequence, tensors, kind.scalars, order)
    expected = [ordered(outputs, time_major), *(ends if states else ())]
    check(kind.sequence, given, expected, code)


@pytest.mark.parametrize("bytes_at_once", [1, 600, 1 << 20])
def test_sequences_are_read_in_blocks(bytes_at_once, monkeypatch):
    monkeypatch.setattr(recurrent, "_BLOCK", bytes_at_once)
    test_sequence_matches(LSTM, ("norm",), True, True, F32)


@KINDS
@pytest.mark.parametrize("shape", [(0, 2, 4), (3, 0, 4), (3, 2, 0)], ids=str)
def test_sequences_of_nothing(shape, kind):
    _, batches, inputs = shape
    w = {n: v[:batches] if "state" in n else v for n, v in kind.cell(inputs=inputs).items()}
    w |= {"input": np.zeros(shape)}
    given = everything(kind.sequence, stored(w, F32), kind.scalars, {"time_major": kind.flag(True)})
    check(kind.sequence, given, kind.steps(w, w["input"], kind.scalars), F32)


def test_time_major_is_0_or_1():
    tensors = stored(rnn_cell() | {"input": drawn(TIMES, BATCHES, INPUTS)}, F32)
    given = everything(RNN.sequence, tensors, RNN.scalars, {"time_major": 2})
    with pytest.raises(RuntimeFailure, match="time_major 2 is neither 0 nor 1"):
        run(RNN.sequence, given, Operand(F32))


AUX = 3
LINKING = pytest.mark.parametrize("linking", ["alone", "parallel", "crossed"])


def check_both_ways(kind, options, linking, merged, states, time_major, code):
    """Both directions have their own sizes of units; see `steps` for one direction."""
    aux = AUX if linking == "crossed" else 0
    second = AUX if linking == "parallel" else INPUTS
    tensors = {"input": ordered(drawn(TIMES, BATCHES, INPUTS), time_major)}
    if linking != "alone":
        tensors |= {"aux_input": ordered(drawn(TIMES, BATCHES, AUX, salt=3), time_major)}
    tensors |= kind.cell(options, "fw_", aux) | kind.cell(options[:1], "bw_", aux, second)
    tensors = stored(tensors, code)
    w = reals(tensors)
    x = ordered(w["input"], time_major)
    a = ordered(w["aux_input"], time_major) if linking != "alone" else None
    crossed = a if linking == "crossed" else None
    forward, *ahead = kind.steps(side("fw_", w), x, kind.scalars, crossed)
    back = a if linking == "parallel" else x
    reverse = None if crossed is None else crossed[::-1]
    backward, *behind = kind.steps(side("bw_", w), back[::-1], kind.scalars, reverse)
    outputs = [ordered(forward, time_major), ordered(backward[::-1], time_major)]
    expected = [np.concatenate(outputs, axis=-1)] if merged else outputs
    flags = {"merge_outputs": merged, "time_major": time_major}
    given = everything(kind.both, tensors, kind.scalars, flags)
    check(kind.both, given, [*expected, *((*ahead, *behind) if states else ())], code, linking)


@TYPES
@MAJOR
@KINDS
@LINKING
@pytest.mark.parametrize("merged", [False, True], ids=["", "merged"])
@pytest.mark.parametrize("states", [False, True], ids=["", "states"])
def test_both_directions_match(states, merged, linking, kind, time_major, code):
    check_both_ways(kind, (), linking, merged, states, time_major, code)


@LINKING
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_both_directions_of_cells_of_other_kinds(options, linking):
    if "coupled" in options and linking == "crossed":
        options = ("coupled",)
    check_both_ways(LSTM, options, linking, False, True, True, F32)


@pytest.mark.parametrize(
    ("leave_out", "sentence"),
    [
        ("bw_aux_weights", "fw_aux_weights and bw_aux_weights belong together"),
        ("aux_input", "operand aux_input is missing, its value is required"),
    ],
)
def test_linking_needs_all_that_it_takes(leave_out, sentence):
    tensors = {"input": drawn(TIMES, BATCHES, INPUTS), "aux_input": drawn(TIMES, BATCHES, AUX)}
    tensors |= rnn_cell(prefix="fw_", aux=AUX) | rnn_cell(prefix="bw_", aux=AUX)
    scalars = {"activation": 1, "time_major": True, "merge_outputs": False}
    given = everything(RNN.both, stored(tensors, F32), scalars, {leave_out: None})
    with pytest.raises(RuntimeFailure, match=sentence):
        run(RNN.both, given, Operand(F32), Operand(F32))


REFUSALS = [
    ({"cell_clip": -1.0}, "a clipping threshold is negative: -1"),
    ({"projection_clip": -0.5}, "a clipping threshold is negative: -0.5"),
    ({"activation": 5}, "activation 5 is none of 0 to 3, 4 and 6"),
    ({"activation": -1}, "activation -1 is none of 0 to 3, 4 and 6"),
    ({"input_gate_bias": None}, "input_to_input_weights needs input_gate_bias"),
    ({"recurrent_to_input_weights": None}, "needs recurrent_to_input_weights"),
    ({"cell_to_output_weights": drawn(UNITS)}, "cell_to_output_weights needs cell_to_input_weig"),
    ({"cell_layer_norm_weights": drawn(UNITS)}, "cell_layer_norm_weights needs input_layer_norm"),
    ({"projection_bias": drawn(UNITS)}, "projection_bias needs projection_weights"),
    ({"forget_gate_bias": drawn(UNITS + 1)}, "forget_gate_bias has 7 units, others have 6"),
    ({"cell_state_in": drawn(BATCHES, UNITS, 1)}, "cell_state_in has 2 dimensions, not 3"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSALS)
def test_refusals(change, sentence):
    given = cell() | {"input": drawn(BATCHES, INPUTS)} | SCALARS | change
    given = {n: store(v, F32) if isinstance(v, np.ndarray) else v for n, v in given.items()}
    with pytest.raises(RuntimeFailure, match="OP_FAILED") as caught:
        run(spec.LSTM, everything(spec.LSTM, given), *[Operand(F32)] * 4)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("merged", "outputs"), [(True, 2), (True, 6), (False, 1), (False, 5)])
def test_merged_outputs_are_one(merged, outputs):
    tensors = {"input": drawn(TIMES, BATCHES, INPUTS)} | cell((), "fw_") | cell((), "bw_")
    row = spec.BIDIRECTIONAL_SEQUENCE_LSTM
    flags = {"merge_outputs": merged, "time_major": True}
    given = everything(row, stored(tensors, F32), SCALARS, flags)
    with pytest.raises(RuntimeFailure, match="OP_FAILED"):
        run(row, given, *[Operand(F32)] * outputs)
