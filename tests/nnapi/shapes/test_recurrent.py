"""Shapes of recurrent operations: what follows from what is known, and what does not fit."""

import re

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Pending, ShapeError, Tensor
from tests.nnapi.host.recurrent_cells import shapes
from tests.nnapi.shapes.operands import t

UNKNOWN = Tensor(None)


def cell(*options, prefix="", aux=0, inputs=5):
    """An LSTM cell of 7 units and 7 outputs, 3 when projected, for 2 batches."""
    outputs = 3 if "projection" in options else 7
    found = {name: t(*shape) for name, shape in shapes(inputs, 7, outputs, options, aux).items()}
    found |= {"output_state_in": t(2, outputs), "cell_state_in": t(2, 7)}
    return {prefix + name: operand for name, operand in found.items()}


def rnn_cell(prefix="", units=7, inputs=5):
    found = {"weights": t(units, inputs), "recurrent_weights": t(units, units), "bias": t(units)}
    found |= {"hidden_state_in": t(2, units)}
    return {prefix + name: operand for name, operand in found.items()}


CLIPS = {"activation": 4, "cell_clip": 0.0, "projection_clip": 0.0}
LSTM = cell() | {"input": t(2, 5)} | CLIPS
PROJECTED = cell("coupled", "projection") | {"input": t(2, 5)} | CLIPS
ONE_WAY = LSTM | {"input": t(9, 2, 5), "time_major": True}
SEQUENCE = CLIPS | {"input": t(9, 2, 5), "time_major": True, "merge_outputs": False}
BOTH = SEQUENCE | cell(prefix="fw_") | cell("projection", prefix="bw_")
PARALLEL = SEQUENCE | cell(prefix="fw_") | cell(prefix="bw_", inputs=4) | {"aux_input": t(9, 2, 4)}
CROSSED = PARALLEL | cell(prefix="fw_", aux=4) | cell(prefix="bw_", aux=4)
RNN = rnn_cell() | {"input": t(2, 5), "activation": 1}
BOTH_RNN = rnn_cell("fw_") | rnn_cell("bw_", 6) | {"input": t(2, 9, 5), "activation": 0}
BOTH_RNN |= {"time_major": False, "merge_outputs": True}
SVDF = {
    "input": t(2, 5),
    "weights_feature": t(6, 5),
    "weights_time": t(6, 4),
    "bias": t(3),
    "state_in": t(2, 24),
    "rank": 2,
    "activation": 0,
}
CASES = [
    (spec.LSTM, LSTM, {}, ((2, 28), (2, 7), (2, 7), (2, 7))),
    (spec.LSTM, PROJECTED, {}, ((2, 21), (2, 3), (2, 7), (2, 3))),
    (spec.LSTM, LSTM, {"input": UNKNOWN}, ((2, 28), (2, 7), (2, 7), (2, 7))),
    (spec.LSTM, LSTM, {"activation": Pending.PENDING}, (None,) * 4),
    (spec.QUANTIZED_LSTM, PROJECTED, {}, ((2, 3), (2, 7), (2, 3))),
    (spec.QUANTIZED_16BIT_LSTM, LSTM, {}, ((2, 7), (2, 7))),
    (spec.UNIDIRECTIONAL_SEQUENCE_LSTM, ONE_WAY, {}, ((9, 2, 7), (2, 7), (2, 7))),
    (spec.UNIDIRECTIONAL_SEQUENCE_LSTM, ONE_WAY, {"input": t(None, 2, None)}, ((None, 2, 7),)),
    (spec.BIDIRECTIONAL_SEQUENCE_LSTM, BOTH, {}, ((9, 2, 7), (9, 2, 3))),
    (spec.BIDIRECTIONAL_SEQUENCE_LSTM, BOTH, {"merge_outputs": True}, ((9, 2, 10),)),
    (spec.BIDIRECTIONAL_SEQUENCE_LSTM, PARALLEL, {}, ((9, 2, 7), (9, 2, 7))),
    (
        spec.BIDIRECTIONAL_SEQUENCE_LSTM,
        CROSSED,
        {"time_major": False, "input": t(2, 9, 5), "aux_input": t(2, 9, 4)},
        ((2, 9, 7), (2, 9, 7), (2, 7), (2, 7), (2, 7), (2, 7)),
    ),
    (spec.RNN, RNN, {}, ((2, 7), (2, 7))),
    (spec.RNN, RNN, {"hidden_state_in": UNKNOWN, "input": t(None, 5)}, ((None, 7), (None, 7))),
    (spec.UNIDIRECTIONAL_SEQUENCE_RNN, RNN, {"input": t(2, 9, 5), "time_major": 0}, ((2, 9, 7),)),
    (spec.BIDIRECTIONAL_SEQUENCE_RNN, BOTH_RNN, {}, ((2, 9, 13), (2, 7), (2, 6))),
    (spec.SVDF, SVDF, {}, ((2, 24), (2, 3))),
    (spec.SVDF, SVDF, {"weights_time": UNKNOWN, "bias": None}, ((2, 24), (2, 3))),
    (spec.SVDF, SVDF, {"weights_feature": t(None, 5), "weights_time": UNKNOWN}, ((2, 24), (2, 3))),
    (spec.SVDF, SVDF, {"state_in": UNKNOWN}, ((2, 24), (2, 3))),
]


@pytest.mark.parametrize(("row", "operands", "change", "expected"), CASES)
def test_shapes(row, operands, change, expected):
    assert infer(row, operands | change, len(expected)) == expected


def test_nothing_but_ranks_is_known():
    operands = {name: t(*[None] * len(v.known)) for name, v in cell().items()} | CLIPS
    unknown = infer(spec.LSTM, operands | {"input": UNKNOWN}, 4)
    assert unknown == ((None, None),) * 4


REFUSALS = [
    (spec.LSTM, LSTM, {"input": t(2, 6)}, "input_to_input_weights has 5 inputs, others have 6"),
    (spec.LSTM, LSTM, {"input": t(3, 5)}, "output_state_in has 2 batches, others have 3"),
    (spec.LSTM, LSTM, {"cell_bias": t(7, 1)}, "cell_bias has 1 dimensions, not 2"),
    (spec.LSTM, LSTM, {"cell_bias": None}, "operand cell_bias is missing, its value is required"),
    (spec.LSTM, LSTM, {"input": None}, "operand input is missing, its value is required"),
    (spec.LSTM, LSTM, {"input_gate_bias": None}, "input_to_input_weights needs input_gate_bias"),
    (spec.LSTM, LSTM, cell("projection") | {"projection_weights": None}, "sizes 3 and 7"),
    (
        spec.LSTM,
        PROJECTED,
        {"input_layer_norm_weights": t(7)},
        "input_layer_norm_weights needs input_to_input_weights",
    ),
    (
        spec.QUANTIZED_16BIT_LSTM,
        LSTM,
        {"input_gate_bias": None},
        "operand input_gate_bias is missing, its value is required",
    ),
    (spec.UNIDIRECTIONAL_SEQUENCE_LSTM, ONE_WAY, {"input": t(2, 5)}, "input has 3 dimensions"),
    (
        spec.BIDIRECTIONAL_SEQUENCE_LSTM,
        PARALLEL,
        {"aux_input": t(8, 2, 4)},
        "aux_input has 8 times, others have 9",
    ),
    (
        spec.BIDIRECTIONAL_SEQUENCE_LSTM,
        CROSSED,
        {"fw_aux_input_to_cell_weights": None},
        "aux_input_to_input_weights needs aux_input_to_cell_weights",
    ),
    (spec.RNN, RNN, {"recurrent_weights": t(7, 6)}, "recurrent_weights has 6 units"),
    (spec.UNIDIRECTIONAL_SEQUENCE_RNN, RNN, {"time_major": 2}, "neither 0 nor 1"),
    (spec.SVDF, SVDF, {"rank": 4}, "6 filters do not divide into groups of rank 4"),
    (spec.SVDF, SVDF, {"rank": -1}, "rank -1 is not positive"),
]


@pytest.mark.parametrize(("row", "operands", "change", "sentence"), REFUSALS)
def test_refusals(row, operands, change, sentence):
    with pytest.raises(ShapeError, match=re.escape(sentence)):
        infer(row, operands | change)


def test_merged_outputs_are_one_less():
    with pytest.raises(ShapeError, match="has 3 outputs, not 4"):
        infer(spec.BIDIRECTIONAL_SEQUENCE_RNN, BOTH_RNN, 4)
