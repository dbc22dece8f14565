"""LSTM: gates, peepholes, and where it is one operation."""

import pytest

from tests.operators.recurrent_layers import BATCH, DIRECTIONS, ROUNDED, UNITS, layer, weights
from tests.oracle import FL2, FL3, FL4, FL8, emitted, f32, matches, on_cpu


@pytest.mark.parametrize("target", [FL2, FL8])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("coupled", [0, 1])
def test_peepholes_and_coupled_gates_match(coupled, direction, target):
    d = DIRECTIONS[direction]
    states = [f32(d, BATCH, UNITS)] * 2
    peepholes = [weights(d, 3 * UNITS)]
    case = layer(
        "LSTM",
        directions=d,
        direction=direction,
        states=states,
        more=peepholes,
        input_forget=coupled,
    )
    matches(case, target, atol=ROUNDED, oracle=on_cpu)


def test_an_lstm_is_a_sequence_where_the_level_has_it():
    assert emitted(layer("LSTM", outputs=1), FL3) == ["UNIDIRECTIONAL_SEQUENCE_LSTM", "RESHAPE"]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM"), FL3)  # no states yet
    assert emitted(layer("LSTM"), FL4).count("UNIDIRECTIONAL_SEQUENCE_LSTM") == 1
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" not in emitted(layer("LSTM", input_forget=1), FL8)
