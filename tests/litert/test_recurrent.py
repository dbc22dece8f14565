"""LSTMs, RNNs and SVDF as operators of each step, against the NDK's equations in float64."""

import numpy as np
import pytest

from ep_nnapi.litert.library import load
from ep_nnapi.litert.to_tflite import convert, obstacles
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F16, F32
from tests.litert.needs import LITERT
from tests.litert.test_to_tflite import matches
from tests.nnapi.build import one
from tests.nnapi.host.recurrent_cells import OPTIONS, SCALARS, drawn, steps
from tests.ort_devices.test_recurrent import ATOL, BATCHES, TIMES, UNITS, cell, model_of, sequence

LSTM = spec.UNIDIRECTIONAL_SEQUENCE_LSTM


def lstm(options: tuple[str, ...] = (), *, given: tuple[str, ...] = (), **scalars: object):
    """The model, its scalars and the cell's tensors."""
    tensors, scalars = cell(options), SCALARS | {"time_major": True} | scalars
    outputs = tensors["output_state_in"].shape[1]
    shapes = (TIMES, BATCHES, outputs), (BATCHES, outputs), (BATCHES, UNITS)
    return model_of(LSTM, tensors, scalars, *shapes, computed=given), scalars, tensors


@LITERT
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_cell(options: tuple[str, ...]) -> None:
    """Also when it runs again: the states are those that the model is given."""
    model, scalars, tensors = lstm(options, cell_clip=0.6, projection_clip=0.4)
    found = load(convert(model))
    expected = steps(tensors, sequence(), scalars)
    for _ in range(2):
        got = found.run({"i0": sequence().astype(np.float32)})
        for n, wanted in enumerate(expected):
            np.testing.assert_allclose(got[f"o{n}"], wanted, 0, ATOL)


@LITERT
@pytest.mark.parametrize("activation", [1, 3, 4, 6])
def test_activations_of_cells(activation: int) -> None:
    model, scalars, tensors = lstm(activation=activation)
    wanted, *_ = steps(tensors, sequence(), scalars)
    got = load(convert(model)).run({"i0": sequence().astype(np.float32)})
    np.testing.assert_allclose(got["o0"], wanted, 0, ATOL)


@LITERT
def test_weights_may_be_computed() -> None:
    name = "recurrent_to_cell_weights"
    model, scalars, tensors = lstm(given=(name,))
    wanted, *_ = steps(tensors, sequence(), scalars)
    feeds = {"i0": sequence().astype(np.float32), "i1": tensors[name].astype(np.float32)}
    np.testing.assert_allclose(load(convert(model)).run(feeds)["o0"], wanted, 0, ATOL)


def rnn(row: spec.OperationSpec, *outputs: tuple[int, ...], **scalars: object) -> Model:
    """An RNN of 3 inputs and 4 units over [TIMES, BATCHES, 3], or one step."""
    weights = {
        name: drawn(*shape, salt=salt)
        for salt, (name, shape) in enumerate(
            {
                "weights": (4, 3),
                "aux_weights": (4, 3),
                "recurrent_weights": (4, 4),
                "bias": (4,),
                "hidden_state_in": (BATCHES, 4),
            }.items()
        )
    }
    both = {f"{way}_{name}": array for way in ("fw", "bw") for name, array in weights.items()}
    given = drawn(*outputs[0][:-1], 3)
    tensors = {**weights, **both, "input": given, "aux_input": given}
    numbers = {"activation": 4, **scalars}
    return model_of(row, tensors, numbers, *outputs, computed=("aux_input",))


@LITERT
@pytest.mark.parametrize("time_major", [False, True])
def test_rnns(time_major: bool) -> None:
    matches(rnn(spec.RNN, (BATCHES, 4), (BATCHES, 4)))
    whole = (TIMES, BATCHES, 4) if time_major else (BATCHES, TIMES, 4)
    states = (BATCHES, 4)
    major = {"time_major": time_major}
    matches(rnn(spec.UNIDIRECTIONAL_SEQUENCE_RNN, whole, states, time_major=int(time_major)))
    both = spec.BIDIRECTIONAL_SEQUENCE_RNN
    matches(rnn(both, whole, whole, states, states, merge_outputs=False, **major))
    matches(rnn(both, (*whole[:2], 8), states, states, merge_outputs=True, **major))


@LITERT
@pytest.mark.parametrize("code", [F32, F16])
def test_svdf(code) -> None:
    """Two units of rank 2 with a memory of 3."""
    state = Operand(code, (2, 12))
    weights = [drawn(*shape).astype(code.numpy) for shape in ((4, 5), (4, 3), (2,))]
    given = Operand(code, (2, 5)), *weights, state, 2, 1
    model = one(spec.SVDF, given, [state, Operand(code, (2, 2))])
    matches(model, 2e-3 if code is F16 else ATOL)


@pytest.mark.parametrize(("steps", "reason"), [(256, ""), (257, "a sequence of 257 steps")])
def test_sequences_have_a_limit(steps: int, reason: str) -> None:
    whole, major = (steps, BATCHES, 4), {"time_major": 1}
    assert obstacles(rnn(spec.UNIDIRECTIONAL_SEQUENCE_RNN, whole, **major)) == (reason,)
