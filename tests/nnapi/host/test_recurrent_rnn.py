"""RNN and its sequences against the NDK's equation in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.lstm_cells import FUNCTIONS, drawn, side
from tests.nnapi.host.oracle import F32, FLOATS, compare, run, store

TIMES, BATCHES, INPUTS, UNITS, AUX = 5, 2, 4, 6, 3
ATOL = 2e-6
"""Of float32: sums of some ten products, five times over."""
TYPES = pytest.mark.parametrize("code", FLOATS, ids=lambda code: code.name)
MAJOR = pytest.mark.parametrize("time_major", [True, False], ids=["time", "batch"])


def cell(prefix="", inputs=INPUTS, units=UNITS, aux=0):
    shapes = {
        "weights": (units, inputs),
        "recurrent_weights": (units, units),
        "bias": (units,),
        "hidden_state_in": (BATCHES, units),
    }
    if aux:
        shapes |= {"aux_weights": (units, aux)}
    salts = range(len(prefix), len(shapes) + len(prefix))
    return {
        prefix + name: drawn(*shape, salt=salt) / 2
        for (name, shape), salt in zip(shapes.items(), salts, strict=True)
    }


def steps(w, sequence, activation, auxiliary=None):
    """Outputs of all times and the last state; sequences are [times, batches, inputs]."""
    h, outputs = w["hidden_state_in"], []
    for t, x in enumerate(sequence):
        total = x @ w["weights"].T + h @ w["recurrent_weights"].T + w["bias"]
        if auxiliary is not None:
            total = total + auxiliary[t] @ w["aux_weights"].T
        h = FUNCTIONS[activation](total)
        outputs.append(h)
    return np.array(outputs).reshape(len(sequence), *h.shape), h


def check(row, given, expected, code):
    """Asserts the outputs, with weights as inputs and as constants."""
    everything = dict.fromkeys(param.name for param in row.input_params[0]) | given
    for constant in (False, True):
        results = run(row, everything, *[Operand(code)] * len(expected), constant=constant)
        for n, (result, numbers) in enumerate(zip(results, expected, strict=True)):
            compare(result, Operand(code), numbers, ATOL, f"{row} {n}, constant={constant}")


def ordered(sequence, time_major):
    return sequence if time_major else sequence.swapaxes(0, 1)


@TYPES
@pytest.mark.parametrize("activation", FUNCTIONS)
def test_rnn_matches(activation, code):
    tensors = {n: store(v, code) for n, v in (cell() | {"input": drawn(BATCHES, INPUTS)}).items()}
    w = {name: operand.real for name, operand in tensors.items()}
    _, h = steps(w, w["input"][np.newaxis], activation)
    check(spec.RNN, tensors | {"activation": activation}, [h, h], code)


@TYPES
@MAJOR
@pytest.mark.parametrize("state", [False, True], ids=["", "state"])
def test_sequence_matches(time_major, state, code):
    sequence = ordered(drawn(TIMES, BATCHES, INPUTS), time_major)
    tensors = {name: store(v, code) for name, v in (cell() | {"input": sequence}).items()}
    w = {name: operand.real for name, operand in tensors.items()}
    outputs, h = steps(w, ordered(w["input"], time_major), 4)
    scalars = {"activation": 4, "time_major": int(time_major)}
    expected = [ordered(outputs, time_major), *([h] if state else [])]
    check(spec.UNIDIRECTIONAL_SEQUENCE_RNN, tensors | scalars, expected, code)


@pytest.mark.parametrize("shape", [(0, 2, 4), (3, 0, 4), (3, 2, 0)], ids=str)
def test_sequences_of_nothing(shape):
    w = cell(inputs=shape[2]) | {"input": np.zeros(shape)}
    w["hidden_state_in"] = w["hidden_state_in"][: shape[1]]
    given = {name: store(v, F32) for name, v in w.items()} | {"activation": 0, "time_major": 1}
    check(spec.UNIDIRECTIONAL_SEQUENCE_RNN, given, steps(w, w["input"], 0), F32)


def test_time_major_is_0_or_1():
    tensors = cell() | {"input": drawn(TIMES, BATCHES, INPUTS)}
    given = {name: store(v, F32) for name, v in tensors.items()} | {"activation": 0}
    with pytest.raises(RuntimeFailure, match="time_major 2 is neither 0 nor 1"):
        run(spec.UNIDIRECTIONAL_SEQUENCE_RNN, given | {"time_major": 2}, Operand(F32))


@TYPES
@MAJOR
@pytest.mark.parametrize("merged", [False, True], ids=["", "merged"])
@pytest.mark.parametrize("states", [False, True], ids=["", "states"])
@pytest.mark.parametrize("linking", ["alone", "parallel", "crossed"])
def test_both_directions_match(linking, states, merged, time_major, code):
    aux = AUX if linking == "crossed" else 0
    second = AUX if linking == "parallel" else INPUTS
    tensors = {"input": ordered(drawn(TIMES, BATCHES, INPUTS), time_major)}
    if linking != "alone":
        tensors |= {"aux_input": ordered(drawn(TIMES, BATCHES, AUX), time_major)}
    tensors |= cell("fw_", aux=aux) | cell("bw_", second, UNITS - 1, aux)
    stored = {name: store(v, code) for name, v in tensors.items()}
    w = {name: operand.real for name, operand in stored.items()}
    x = ordered(w["input"], time_major)
    a = ordered(w["aux_input"], time_major) if linking != "alone" else None
    crossed = a if linking == "crossed" else None
    forward, fh = steps(side("fw_", w), x, 1, crossed)
    back = a if linking == "parallel" else x
    backward, bh = steps(side("bw_", w), back[::-1], 1, None if crossed is None else crossed[::-1])
    outputs = [ordered(forward, time_major), ordered(backward[::-1], time_major)]
    expected = [np.concatenate(outputs, axis=-1)] if merged else outputs
    scalars = {"activation": 1, "time_major": time_major, "merge_outputs": merged}
    row = spec.BIDIRECTIONAL_SEQUENCE_RNN
    check(row, stored | scalars, [*expected, *([fh, bh] if states else [])], code)


@pytest.mark.parametrize(
    ("leave_out", "sentence"),
    [
        ("bw_aux_weights", "fw_aux_weights and bw_aux_weights belong together"),
        ("aux_input", "operand aux_input is missing, its value is required"),
    ],
)
def test_linking_needs_all_that_it_takes(leave_out, sentence):
    tensors = {
        "input": drawn(TIMES, BATCHES, INPUTS),
        "aux_input": drawn(TIMES, BATCHES, AUX),
        **cell("fw_", aux=AUX),
        **cell("bw_", aux=AUX),
    }
    given = {name: store(v, F32) for name, v in tensors.items() if name != leave_out}
    row = spec.BIDIRECTIONAL_SEQUENCE_RNN
    everything = dict.fromkeys(param.name for param in row.input_params[0]) | given
    scalars = {"activation": 1, "time_major": True, "merge_outputs": False}
    with pytest.raises(RuntimeFailure, match=sentence):
        run(row, everything | scalars, Operand(F32), Operand(F32))
