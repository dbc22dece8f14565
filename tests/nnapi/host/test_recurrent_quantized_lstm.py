"""The quantized LSTMs against the NDK's equations in float64, on the numbers that are stored."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import Q8Y, Q16Y
from tests.nnapi.host.oracle import I32, Q8, Q8S, Stored, run, store
from tests.nnapi.host.recurrent_cells import BIASES, GATES, OPTIONS, SCALARS, drawn, steps, weights

BATCHES, INPUTS, UNITS = 3, 4, 6
STATE_BITS = 2
STATE = Operand(Q16Y, (), 2.0 ** (STATE_BITS - 15))
INPUT = Operand(Q8S, (), 1 / 100, 5)
OUTPUT = Operand(Q8S, (), 1 / 50, -3)
HIDDEN = Operand(Q8S, (), 1 / 127, 0)
WEIGHT = Operand(Q8Y, (), 1 / 127)
NORM = Operand(Q16Y, (), 2.0**-15)
PEEPHOLE = Operand(Q16Y, (), 2.0**-15)
INTERMEDIATE = 2.0**-10
ERROR = 2 * 13 * 2.0**-15
"""Of a product of two gates, whose functions are off by 13 parts of 2**15 (test_fixed_point)."""
STATE_STEPS = 1 + ERROR / STATE.scale


def kind(name):
    """The type with its scale of a tensor by its name; None: a bias."""
    if "layer_norm" in name:
        return NORM
    if name.startswith("cell_to"):
        return PEEPHOLE
    return WEIGHT if name.endswith("weights") else None


def cell(options):
    """Stored tensors of a cell, and the real numbers that they stand for."""
    outputs = 3 if "projection" in options else UNITS
    drawn_weights = weights(INPUTS, UNITS, outputs, options=options)
    stored, reals = {}, {}
    for name, numbers in drawn_weights.items():
        like = kind(name)
        if like is not None:
            stored[name] = store(numbers, like.type, like)
            reals[name] = stored[name].real
            continue
        scale = INPUT.scale * WEIGHT.scale
        if name == "projection_bias":
            scale = HIDDEN.scale * WEIGHT.scale
        elif "norm" in options:
            scale = NORM.scale / 1024
        counts = np.round(numbers / scale).astype(np.int32)
        stored[name], reals[name] = Stored(Operand(I32, counts.shape), counts), counts * scale
    states = {
        "input": (drawn(BATCHES, INPUTS), INPUT),
        "output_state_in": (drawn(BATCHES, outputs, salt=1), OUTPUT),
        "cell_state_in": (drawn(BATCHES, UNITS, salt=2), STATE),
    }
    for name, (numbers, like) in states.items():
        stored[name] = store(numbers, like.type, like)
        reals[name] = stored[name].real
    return stored, reals


def scalars(hidden=HIDDEN, **clips):
    scales = {f"{gate}_intermediate_scale": INTERMEDIATE for gate in GATES}
    return {
        **scales,
        **clips,
        "hidden_state_zero_point": hidden.zero_point,
        "hidden_state_scale": hidden.scale,
    }


def quantized_lstm(stored, numbers, output=OUTPUT):
    """State out, cell state out and output, the same whether weights are inputs or constants."""
    row = spec.QUANTIZED_LSTM
    given = dict.fromkeys(param.name for param in row.input_params[0]) | stored | numbers
    outputs = (output, STATE, output)
    first, second = (run(row, given, *outputs, constant=constant) for constant in (False, True))
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(first[0], first[2])
    return first[2], first[1]


def off(array, operand, real):
    """Largest error of stored numbers in quanta."""
    info = np.iinfo(operand.type.numpy)
    exact = np.clip(real / operand.scale + operand.zero_point, info.min, info.max)
    return np.abs(array - exact).max()


def output_steps(options, reals):
    """Allowed error of an output: its rounding, the hidden state's, the state's and the gates'."""
    if "projection" not in options:
        return 0.5 + 2 * ERROR / HIDDEN.scale
    hidden = HIDDEN.scale / 2 + 2 * ERROR
    return 0.5 + hidden * np.abs(reals["projection_weights"]).sum(axis=1).max() / OUTPUT.scale


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_quantized_lstm_matches(options):
    stored, reals = cell(options)
    output, state = quantized_lstm(stored, scalars())
    _, h, c = steps(reals, reals["input"][np.newaxis])
    result = OUTPUT if "projection" in options else HIDDEN
    assert off(state, STATE, c) <= STATE_STEPS
    assert off(output, result, h) <= output_steps(options, reals)


@pytest.mark.parametrize("bits", range(7))
def test_states_of_every_scale(bits):
    stored, reals = cell(("peephole", "norm"))
    like = Operand(Q16Y, (), 2.0 ** (bits - 15))
    stored["cell_state_in"] = store(drawn(BATCHES, UNITS, salt=2) / 2, Q16Y, like)
    reals["cell_state_in"] = stored["cell_state_in"].real
    row = spec.QUANTIZED_LSTM
    given = dict.fromkeys(param.name for param in row.input_params[0]) | stored | scalars()
    _, state, _ = run(row, given, OUTPUT, like, OUTPUT)
    _, _, c = steps(reals, reals["input"][np.newaxis])
    assert off(state, like, c) <= 1 + ERROR / like.scale


@pytest.mark.parametrize("zero_point", [0, 20, -20])
def test_the_hidden_state_has_a_zero_point(zero_point):
    """It moves what is stored; the projection does not see it."""
    stored, _ = cell(())
    plain, _ = quantized_lstm(stored, scalars())
    moved, _ = quantized_lstm(stored, scalars(replace(HIDDEN, zero_point=zero_point)))
    assert np.array_equal(moved, np.clip(plain.astype(int) + zero_point, -128, 127))
    stored, _ = cell(("projection",))
    fine = replace(HIDDEN, scale=1 / 100)
    plain, _ = quantized_lstm(stored, scalars(fine))
    moved, _ = quantized_lstm(stored, scalars(replace(fine, zero_point=zero_point)))
    assert np.array_equal(moved, plain)


@pytest.mark.parametrize("options", [(), ("projection",)], ids=["", "projection"])
def test_clips(options):
    clips = {"cell_clip": 0.25, "projection_clip": 0.125}
    stored, reals = cell(options)
    output, state = quantized_lstm(stored, scalars(**clips))
    _, h, c = steps(reals, reals["input"][np.newaxis], SCALARS | clips)
    assert np.abs(state).max() == 0.25 / STATE.scale
    assert off(state, STATE, c) <= STATE_STEPS
    result = OUTPUT if options else HIDDEN
    assert off(output, result, h) <= 1 + output_steps(options, reals)  # a clip is whole quanta


def test_a_state_saturates():
    stored, _ = cell(())
    stored["cell_state_in"] = store(np.full((BATCHES, UNITS), 9.0), Q16Y, STATE)
    stored["cell_bias"] = Stored(Operand(I32, (UNITS,)), np.full(UNITS, 2**24, np.int32))
    for gate in ("input", "forget"):
        stored[BIASES[gate]] = stored["cell_bias"]
    _, state = quantized_lstm(stored, scalars())
    assert (state == 32767).all()


@pytest.mark.parametrize("scale", [2.0**-16, 2.0**-8, 0.003])
def test_scales_of_a_state_are_powers_of_two(scale):
    stored, _ = cell(())
    stored["cell_state_in"] = store(np.zeros((BATCHES, UNITS)), Q16Y, Operand(Q16Y, (), scale))
    with pytest.raises(RuntimeFailure, match="which is none of 2\\*\\*-15 to 2\\*\\*-9"):
        quantized_lstm(stored, scalars())


@pytest.mark.parametrize("name", ["hidden_state_scale", "cell_intermediate_scale"])
def test_scales_are_positive(name):
    stored, _ = cell(("norm",))
    with pytest.raises(RuntimeFailure, match="a scale of the hidden state or of a gate is 0"):
        quantized_lstm(stored, scalars() | {name: 0.0})


UNIT = Operand(Q8, (), 1 / 128, 128)
STATE_16 = Operand(Q16Y, (), 2.0**-11)
WEIGHT_16 = Operand(Q8, (), 1 / 200, 100)
BIAS_16 = Operand(I32, (), WEIGHT_16.scale / 128)


def cell_16bit(inputs=INPUTS, units=UNITS):
    """Stored operands of QUANTIZED_16BIT_LSTM in their order."""
    sizes = {"input": (BATCHES, inputs)}
    sizes |= {f"input_to_{gate}_weights": (units, inputs) for gate in GATES}
    sizes |= {f"recurrent_to_{gate}_weights": (units, units) for gate in GATES}
    found = {
        name: store(drawn(*shape, salt=n) / 2, Q8, WEIGHT_16 if n else UNIT)
        for n, (name, shape) in enumerate(sizes.items())
    }
    for n, gate in enumerate(GATES):
        counts = np.round(drawn(units, salt=20 + n) / BIAS_16.scale).astype(np.int32)
        found[BIASES[gate]] = Stored(replace(BIAS_16, dimensions=(units,)), counts)
    found["cell_state_in"] = store(drawn(BATCHES, units, salt=30), Q16Y, STATE_16)
    return found | {"output_state_in": store(drawn(BATCHES, units, salt=31), Q8, UNIT)}


@pytest.mark.parametrize(("inputs", "units"), [(4, 6), (6, 4), (5, 5), (1, 3)])
def test_quantized_16bit_lstm_matches(inputs, units):
    """Weights [recurrent, input] meet rows [input, output before], as in Android's implementation.

    Off by 1 state, whose quantum is 16 times the error of a gate, and 1 output.
    """
    given = cell_16bit(inputs, units)
    w = {name: stored.real for name, stored in given.items()}
    row = np.hstack([w["input"], w["output_state_in"]])
    gates = {}
    for gate in GATES:
        columns = np.hstack([w[f"recurrent_to_{gate}_weights"], w[f"input_to_{gate}_weights"]])
        gates[gate] = row @ columns.T + given[BIASES[gate]].array * BIAS_16.scale
    i, f, o = (1 / (1 + np.exp(-gates[gate])) for gate in ("input", "forget", "output"))
    c = f * w["cell_state_in"] + i * np.tanh(gates["cell"])
    for constant in (False, True):
        state, output = run(spec.QUANTIZED_16BIT_LSTM, given, STATE_16, UNIT, constant=constant)
        assert off(state, STATE_16, c) <= 1.5
        assert off(output, UNIT, o * np.tanh(c)) <= 1


@pytest.mark.parametrize(
    ("name", "like", "sentence"),
    [
        ("input", replace(UNIT, zero_point=127), "not 0.0078125 and 128"),
        ("output_state_in", replace(UNIT, scale=1 / 64), "not 0.0078125 and 128"),
        ("recurrent_to_cell_weights", replace(WEIGHT_16, zero_point=0), "not 0.005 and 100"),
        ("cell_bias", replace(BIAS_16, scale=0.1), "cell_bias has scale 0.1"),
        ("cell_state_in", replace(STATE_16, scale=2.0**-12), "3 integer bits, not 4"),
    ],
)
def test_quantized_16bit_lstm_has_fixed_scales(name, like, sentence):
    given = cell_16bit()
    given[name] = Stored(replace(like, dimensions=given[name].array.shape), given[name].array)
    with pytest.raises(RuntimeFailure, match=sentence):
        run(spec.QUANTIZED_16BIT_LSTM, given, STATE_16, UNIT)
