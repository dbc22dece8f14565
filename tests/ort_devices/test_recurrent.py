"""LSTMs and RNNs over sequences: one node where ONNX has what the cell has, else step by step."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Model, Omitted, Operand
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from tests.nnapi.host.lstm_cells import OPTIONS, SCALARS, drawn, side, steps, weights
from tests.ort_devices.expressions import operators
from tests.ort_devices.networks import Network

TIMES, BATCHES, INPUTS, UNITS = 5, 2, 4, 6
ATOL = 3e-6
"""Of float32: sums of some ten products, several times over."""


def cell(options: tuple[str, ...] = (), prefix: str = "") -> dict[str, np.ndarray]:
    """A cell's weights and states in."""
    outputs = 3 if "projection" in options else UNITS
    found = weights(INPUTS, UNITS, outputs, options=options, prefix=prefix)
    found[f"{prefix}output_state_in"] = drawn(BATCHES, outputs, salt=1)
    found[f"{prefix}cell_state_in"] = drawn(BATCHES, UNITS, salt=2)
    return found


def sequence(*, time_major: bool = True) -> np.ndarray:
    found = drawn(TIMES, BATCHES, INPUTS, salt=3)
    return found if time_major else np.ascontiguousarray(found.swapaxes(0, 1))


def model_of(
    row: spec.Row,
    tensors: dict[str, np.ndarray],
    scalars: dict[str, object],
    *outputs: tuple[int, ...],
    computed: tuple[str, ...] = (),
    code: OperandCode = F32,
) -> Model:
    """The operation on a sequence; tensors named `computed` are inputs of the model too."""
    net, given, ins = Network(), [], []
    for param in row.input_params[0]:
        if param.name == "input" or param.name in computed:
            shape = tensors[param.name].shape if param.name in tensors else None
            given.append(net.add(Operand(code, shape or sequence().shape)))
            ins.append(given[-1])
        elif param.name in tensors:
            given.append(net.tensor(tensors[param.name], code))
        elif param.name in scalars:
            value = scalars[param.name]
            half = code is F16 and isinstance(value, float)
            given.append(
                net.tensor(np.array(value), OperandCode.FLOAT16) if half else net.scalar(value)
            )
        else:
            given.append(net.add(Operand(code, value=Omitted.NO_VALUE)))
    first = net.operation(row, given, *(Operand(code, shape) for shape in outputs))
    return net.model(ins, list(range(first, first + len(outputs))))


def computed(model: Model, *inputs: np.ndarray) -> list[np.ndarray]:
    runtime = HostRuntime((CpuDevice(threads=1),))
    dtype = model.operands[model.inputs[0]].type.numpy
    return runtime.compile(model, runtime.devices()[0]).run([i.astype(dtype) for i in inputs])


STATES = ((BATCHES, UNITS), (BATCHES, UNITS))
WHOLE = (TIMES, BATCHES, UNITS)
UNIDIRECTIONAL, BIDIRECTIONAL = spec.UNIDIRECTIONAL_SEQUENCE_LSTM, spec.BIDIRECTIONAL_SEQUENCE_LSTM


@pytest.mark.parametrize("activation", [1, 4, 6], ids=["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("options", [(), ("peephole",)], ids=["plain", "peephole"])
def test_an_lstm_is_one_node(options, activation):
    tensors, scalars = cell(options), SCALARS | {"activation": activation, "time_major": True}
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, *STATES)
    assert operators(model)["LSTM"] == 1
    assert operators(model)["Gemm"] == 0
    expected = steps(tensors, sequence(), scalars)
    for ours, theirs in zip(computed(model, sequence()), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 0, ATOL)


def test_the_sequences_of_each_batch_may_come_first():
    tensors, scalars = cell(), SCALARS | {"time_major": False}
    given = sequence(time_major=False)
    tensors["input"] = given
    model = model_of(UNIDIRECTIONAL, tensors, scalars, (BATCHES, TIMES, UNITS))
    assert operators(model)["LSTM"] == 1
    (ours,) = computed(model, given)
    np.testing.assert_allclose(ours, steps(tensors, sequence())[0].swapaxes(0, 1), 0, ATOL)


def test_float16_is_computed_in_float32():
    tensors, scalars = cell(), SCALARS | {"time_major": True}
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, code=F16)
    assert operators(model)["LSTM"] == 1
    (ours,) = computed(model, sequence())
    np.testing.assert_allclose(ours, steps(tensors, sequence())[0], 0, 2e-3)  # float16 has 11 bits


@pytest.mark.parametrize("merged", [False, True], ids=["apart", "merged"])
def test_both_directions_are_two_nodes(merged):
    forward, backward = cell(prefix="fw_"), cell(("peephole",), prefix="bw_")
    scalars = SCALARS | {"merge_outputs": merged, "time_major": True}
    shapes = [(*WHOLE[:2], 2 * UNITS)] if merged else [WHOLE, WHOLE]
    model = model_of(BIDIRECTIONAL, forward | backward, scalars, *shapes, *STATES, *STATES)
    assert operators(model)["LSTM"] == 2
    ahead = steps(side("fw_", forward), sequence())
    back = steps(side("bw_", backward), sequence()[::-1])
    outputs = [ahead[0], back[0][::-1]]
    expected = [np.concatenate(outputs, 2)] if merged else outputs
    for ours, theirs in zip(
        computed(model, sequence()), [*expected, *ahead[1:], *back[1:]], strict=True
    ):
        np.testing.assert_allclose(ours, theirs, 0, ATOL)


def rnn(salt: int = 0) -> dict[str, np.ndarray]:
    """Weights and the state in of a basic cell."""
    shapes = {"weights": (UNITS, INPUTS), "recurrent_weights": (UNITS, UNITS), "bias": (UNITS,)}
    shapes["hidden_state_in"] = (BATCHES, UNITS)
    return {name: drawn(*s, salt=salt + i) for i, (name, s) in enumerate(shapes.items())}


def rnn_steps(w: dict[str, np.ndarray], inputs: np.ndarray, activation: int) -> np.ndarray:
    """The states by the NDK's equation in float64."""
    function = {1: lambda x: np.maximum(x, 0), 3: lambda x: np.clip(x, 0, 6)}
    function |= {4: np.tanh, 6: lambda x: 1 / (1 + np.exp(-x))}
    wide = {name: array.astype(np.float64) for name, array in w.items()}
    state, states = wide["hidden_state_in"], []
    for x in inputs.astype(np.float64):
        sums = x @ wide["weights"].T + state @ wide["recurrent_weights"].T + wide["bias"]
        state = function[activation](sums)
        states.append(state)
    return np.stack(states)


@pytest.mark.parametrize("activation", [1, 4, 6], ids=["relu", "tanh", "sigmoid"])
def test_an_rnn_is_one_node(activation):
    tensors, scalars = rnn(), {"activation": activation, "time_major": 1}
    model = model_of(spec.UNIDIRECTIONAL_SEQUENCE_RNN, tensors, scalars, WHOLE, STATES[0])
    assert (operators(model)["RNN"], operators(model)["Gemm"]) == (1, 0)
    expected = rnn_steps(tensors, sequence(), activation)
    outputs, last = computed(model, sequence())
    np.testing.assert_allclose(outputs, expected, 0, ATOL)
    np.testing.assert_allclose(last, expected[-1], 0, ATOL)


def test_an_rnn_with_a_clip_or_computed_weights_takes_steps():
    row, scalars = spec.UNIDIRECTIONAL_SEQUENCE_RNN, {"activation": 3, "time_major": 1}
    clipped = model_of(row, rnn(), scalars, WHOLE)
    assert operators(clipped)["RNN"] == 0
    (ours,) = computed(clipped, sequence())
    np.testing.assert_allclose(ours, rnn_steps(rnn(), sequence(), 3), 0, ATOL)
    scalars["activation"] = 4
    given = model_of(row, rnn(), scalars, WHOLE, computed=("weights",))
    assert operators(given)["RNN"] == 0
    (ours,) = computed(given, sequence(), rnn()["weights"])
    np.testing.assert_allclose(ours, rnn_steps(rnn(), sequence(), 4), 0, ATOL)


@pytest.mark.parametrize(
    "options", [o for n, o in OPTIONS.items() if n not in ("plain", "peephole")]
)
def test_what_only_nnapi_has_is_computed_step_by_step(options):
    scalars = SCALARS | {"time_major": True}
    shape = (TIMES, BATCHES, 3 if "projection" in options else UNITS)
    model = model_of(UNIDIRECTIONAL, cell(options), scalars, shape)
    assert operators(model)["LSTM"] == 0
    (ours,) = computed(model, sequence())
    np.testing.assert_allclose(ours, steps(cell(options), sequence())[0], 0, ATOL)


@pytest.mark.parametrize("change", [{"activation": 3}, {"cell_clip": 0.5}], ids=str)
def test_clips_are_computed_step_by_step(change):
    scalars = SCALARS | {"time_major": True} | change
    model = model_of(UNIDIRECTIONAL, cell(), scalars, WHOLE)
    assert operators(model)["LSTM"] == 0
    (ours,) = computed(model, sequence())
    np.testing.assert_allclose(ours, steps(cell(), sequence(), scalars)[0], 0, ATOL)


def test_weights_that_are_computed_take_steps():
    tensors, scalars, name = cell(), SCALARS | {"time_major": True}, "recurrent_to_cell_weights"
    model = model_of(UNIDIRECTIONAL, tensors, scalars, WHOLE, computed=(name,))
    assert operators(model)["LSTM"] == 0
    (ours,) = computed(model, sequence(), tensors[name])
    np.testing.assert_allclose(ours, steps(tensors, sequence())[0], 0, ATOL)


def test_providers_without_kernels_for_sequences_compute_step_by_step():
    model = model_of(UNIDIRECTIONAL, cell(), SCALARS | {"time_major": True}, WHOLE)
    assert operators(model, Kernels())["LSTM"] == 0
