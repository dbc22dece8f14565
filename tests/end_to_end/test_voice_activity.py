"""A detector of voices built as Silero VAD, window by window with its state carried.

Its sampling rate is an input that chooses one of two networks, each a short-time Fourier transform
as a convolution, an encoder, and an LSTM that starts from the state of the window before.
"""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.options.table import parse
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import model_of, nodes_of, tensors
from tests.runtimes import host_only

UNITS = 6  # of the LSTM and of the layers around it
SECONDS = 2

NETWORK = """
padded = Pad <mode = "reflect"> (input, pads)
sound = Unsqueeze (padded, second)
complex = Conv <strides = [HOP]> (sound, basis)
real = Slice (complex, zero, half, second)
imaginary = Slice (complex, half, whole, second)
r = Pow (real, two)
i = Pow (imaginary, two)
energy = Add (r, i)
magnitude = Sqrt (energy)
deep = Conv <strides = [FRAMES]> (magnitude, encoder, bias)
encoded = Relu (deep)
sizes = Shape (encoded)
frames = Gather (sizes, last)
single = Equal (frames, one)
row = If (single) <
    then_branch = squeezed () => (rank_2) { rank_2 = Squeeze (encoded, last_axis) },
    else_branch = whole_one () => (rank_3) { rank_3 = Identity (encoded) }
>
step = Unsqueeze (row, first)
before = Gather (state, first)
memory = Gather (state, second)
all, h, c = LSTM <hidden_size = UNITS> (step, w, r_w, b, , before, memory)
next = Concat <axis = 0> (h, c)
h_row = Squeeze (h, first)
h_wide = Unsqueeze (h_row, last_axis)
active = Relu (h_wide)
logit = Conv (active, decoder)
likely = Sigmoid (logit)
flat = Squeeze (likely, second)
p = ReduceMean <axes = [1], keepdims = 1> (flat)
"""


def network(name: str, length: int, frames: int, rng: np.random.Generator) -> onnx.GraphProto:
    """The network for one rate: Fourier transforms of `length` samples, half overlapping."""
    text = NETWORK.replace("HOP", str(length // 2)).replace("FRAMES", str(frames))
    bins = length // 2 + 1
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(length)) / length

    def drawn(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    constants = {
        "pads": np.array([0, 0, 0, length // 4]),
        "basis": np.concatenate([np.cos(angles), np.sin(angles)])[:, None].astype(np.float32),
        "encoder": drawn(UNITS, bins, frames) / bins,
        "bias": drawn(UNITS),
        "w": drawn(1, 4 * UNITS, UNITS),
        "r_w": drawn(1, 4 * UNITS, UNITS),
        "b": drawn(1, 8 * UNITS),
        "decoder": drawn(1, UNITS, 1),
        "two": np.float32(2),
        "one": np.int64(1),
        "last": np.int64(2),
        "half": np.array([bins]),
        "whole": np.array([2 * bins]),
        "zero": np.array([0]),
        "first": np.array([0]),
        "second": np.array([1]),
        "last_axis": np.array([-1]),
    }
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("p", "next")]
    nodes = nodes_of(text.replace("UNITS", str(UNITS)))
    return helper.make_graph(nodes, name, [], ends, tensors(constants))


@pytest.fixture(scope="module")
def detector() -> bytes:
    """Voices in sound at 16 kHz, or at any other rate as if at 8."""
    rng = np.random.default_rng(0)
    (equal,) = nodes_of("fast = Equal (sr, rate)")
    wide, narrow = network("fast", 32, 4, rng), network("slow", 16, 4, rng)
    choice = helper.make_node(
        "If", ["fast"], ["output", "stateN"], then_branch=wide, else_branch=narrow
    )
    ends = {"input": (None, None), "state": (2, None, UNITS), "sr": (np.int64, ())}
    outputs = {"output": (None, 1), "stateN": (None, None, None)}
    constants = {"rate": np.int64(16000)}
    return model_of([equal, choice], ends, outputs, constants, opset=16).SerializeToString()


def windows(rate: int, size: int, context: int) -> Iterator[np.ndarray]:
    """Syllables of a voice in noise, each window with the end of the one before."""
    rng, t = np.random.default_rng(1), np.arange(SECONDS * rate) / rate
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 9)) * (np.sin(20 * t) > 0)
    sound = (0.2 * voice + 0.01 * rng.standard_normal(len(t))).astype(np.float32)
    sound = np.concatenate([np.zeros(context, np.float32), sound])
    for start in range(0, SECONDS * rate - size + 1, size):
        yield sound[None, start : start + context + size]


@host_only
@pytest.mark.parametrize(("rate", "size", "context"), [(16000, 64, 8), (8000, 32, 4)])
def test_sound_with_the_state_carried(detector: bytes, rate: int, size: int, context: int) -> None:
    """With the rate frozen one cluster, whose runs are the device's and agree with the CPU."""
    fix = f"sr:={rate};input=1,{size + context};state=2,1,{UNITS}"
    found = ep_nnapi.check(detector, fix=fix, partitioning="maximal")
    assert [len(c.nodes) for c in found.clusters] == [found.nodes]

    on_cpu = session_of(detector)
    with fixed_model(detector, parse({"fix": fix})) as (static, _):
        session = nnapi_session(static)
    ours = theirs = np.zeros((2, 1, UNITS), np.float32)
    given, seen = {"sr": np.array(rate)}, []
    for window in windows(rate, size, context):
        p, ours = session.run(None, {"input": window, "state": ours})
        expected, theirs = on_cpu.run(None, {"input": window, "state": theirs, **given})
        np.testing.assert_allclose(p, expected, rtol=0, atol=1e-5)  # sums in another order
        seen.append(p.item())
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert np.ptp(seen) > 0.01
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert cluster["device_runs"] == cluster["runs"] == len(seen)
