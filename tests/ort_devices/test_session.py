"""Sessions for converted models: types of weights, and what is refused."""

import gc
import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions, Spin
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices import session
from ep_nnapi.ort_devices.graph import Inexpressible
from ep_nnapi.ort_devices.session import (
    PreparedSession,
    kernels,
    open_model,
    open_on_provider,
    threads_of,
)
from ep_nnapi.ort_devices.to_onnx import convert
from ep_nnapi.sessions.cpu import saturates, session_of
from ep_nnapi.sessions.device_session import (
    SPIN_ALWAYS,
    SPIN_IN_RUNS,
    SPIN_NEVER,
    DeviceModel,
    DeviceSession,
    Threads,
)
from tests.nnapi.build import one, relu
from tests.onnx_graph import serialized
from tests.ort_devices.networks import Network, chain, computed, feed
from tests.programs import in_child


def test_weights_are_int8_only_where_their_products_do_not_saturate():
    assert kernels(None).int8_weights is not saturates()
    assert kernels(True).int8_weights
    assert not kernels(False).int8_weights


def test_a_session_gives_the_references_results():
    model = chain()
    (ours,) = open_model(model, None, Threads(1)).execute(feed(model), (), RunOptions())
    (theirs,) = computed(model, ReferenceDevice())
    np.testing.assert_allclose(ours, theirs, 0, 1e-5)  # sums of 36 products in another order


def test_threads_are_those_asked_for(monkeypatch: pytest.MonkeyPatch):
    asked: list[Threads] = []
    monkeypatch.setattr(session, "open_session", lambda _, threads: asked.append(threads))
    open_model(chain(), None, Threads(2, SPIN_NEVER))
    assert [threads.count for threads in asked] == [2]
    assert asked[0].settings[: len(SPIN_NEVER)] == SPIN_NEVER


_TYPES = "onnxruntime: Type Error: Type (tensor(int8)) of output arg (q) of node (QuantizeLinear) "
_TYPES += "does not match expected type (tensor(uint8))."


@pytest.mark.parametrize(
    ("said", "error", "tried"),
    [
        (["no such file"], "no such file", 1),
        ([_TYPES], "", 2),
        ([_TYPES, "the second one"], "Type Error", 2),
    ],
    ids=["another error", "mistyped", "mistyped and then another error"],
)
def test_a_session_that_optimizers_mistype_is_made_without_them_once(
    said: list[str],
    error: str,
    tried: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """ONNX Runtime 1.25 to 1.27 fails so for quantized ConvTranspose; the first error is told."""
    settings, left = [], [*said]
    opened = session.open_session

    def refused(model: DeviceModel, threads: Threads) -> DeviceSession:
        settings.append(dict(threads.settings)["optimization.disable_specified_optimizers"])
        if left:
            raise RuntimeError(left.pop(0))
        return opened(model, threads)

    monkeypatch.setattr(session, "open_session", refused)
    if error:
        with pytest.raises(RuntimeError, match=error):
            open_model(chain(), None, Threads(1))
    else:
        open_model(chain(), None, Threads(1))
    assert ["TransposeOptimizer" in names for names in settings] == [False, True][:tried]
    assert ("runs without ONNX Runtime's transpose optimizers" in caplog.text) is not bool(error)


def test_sums_and_layer_normalizations_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime reads the setting by its name; without it the two are one node."""
    asked: list[Threads] = []
    monkeypatch.setattr(session, "open_session", lambda _, threads: asked.append(threads))
    open_model(chain(), None, Threads(1, ()))
    text = """(float[1,4,8] x) => (float[1,4,8] y) {
        a = Add (x, x) y = LayerNormalization (a, s, s) }"""
    content = serialized(text, s=np.ones(8, np.float32))
    for settings, expected in ((asked[0].settings, ["Add", "LayerNormalization"]), ((), [_SKIP])):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.log_severity_level = 4
        for entry in settings:
            options.add_session_config_entry(*entry)
        session_of(content, options)
        graph = onnx.load(tmp_path / "optimized.onnx").graph
        assert [n.op_type for n in graph.node] == expected


_SKIP = "SkipLayerNormalization"


def test_weights_that_are_floats_stay_floats() -> None:
    """Left to itself, ONNX Runtime rounds those between quantized tensors to 8 bits."""
    net = Network()
    x = net.add(Operand(Q8, (1, 6, 6, 3), scale=0.03, zero_point=125))
    floats = net.operation(spec.DEQUANTIZE, [x], Operand(F32, (1, 6, 6, 3)))
    sums = net.conv(floats, 4, Operand(F32, (1, 6, 6, 4)))
    y = net.operation(spec.QUANTIZE, [sums], Operand(Q8, (1, 6, 6, 4), scale=0.02, zero_point=128))
    model = net.model(y)
    given, single = feed(model), Threads(1)
    (theirs,) = computed(model, ReferenceDevice())
    for made in (open_model(model, None, single), open_on_provider(model, provider(), single)):
        (ours,) = made.execute(given, (), RunOptions())
        assert np.abs(ours.astype(int) - theirs).max() <= 1  # sums in another order, then rounded


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        (CompileOptions(), Threads(3, SPIN_IN_RUNS)),
        (CompileOptions(threads=2, spin=Spin.ALWAYS), Threads(2, SPIN_ALWAYS)),
        (CompileOptions(spin=Spin.NEVER), Threads(3, SPIN_NEVER)),
    ],
)
def test_threads_are_those_of_the_compilation(options: CompileOptions, threads: Threads):
    assert threads_of(options, 3) == threads


def test_models_of_other_operations_are_refused():
    given = Operand(F32, (1, 3)), 2, np.array([1, 2])
    model = one(spec.RANDOM_MULTINOMIAL, given, [Operand(I32, (1, 2))])
    with pytest.raises(Inexpressible, match=f"of {OperandCode.TENSOR_FLOAT32.name}"):
        open_model(model, None, Threads(1))


def test_an_output_may_be_a_factor_of_a_product_with_transposed_weights() -> None:
    """ONNX Runtime 1.32 creates no session for it if the output is an Identity of the factor."""
    net = Network()
    a, b, c = (net.add(Operand(F32, shape)) for shape in ((2, 3), (3, 4), (4,)))
    y = net.operation(spec.ADD, [a, a, 0], Operand(F32, (2, 3)))
    across = net.operation(spec.TRANSPOSE, [b, np.array([1, 0])], Operand(F32, (4, 3)))
    z = net.operation(spec.FULLY_CONNECTED, [y, across, c, 0], Operand(F32, (2, 4)))
    x, w, bias = (np.arange(n, dtype=np.float32) for n in (6, 12, 4))
    x, w = x.reshape(2, 3), w.reshape(3, 4)
    prepared = open_model(net.model(y, z), None, Threads(1))
    results = prepared.execute((x, w, bias), (), RunOptions())
    for result, expected in zip(results, (2 * x, 2 * x @ w + bias), strict=True):
        np.testing.assert_array_equal(result, expected)  # whole numbers below 2^24


SECONDS = 60
"""More than anything here takes."""


def opened(threads: int = 2) -> PreparedSession:
    found = open_model(chain(), None, Threads(threads))
    assert isinstance(found, PreparedSession)
    return found


def test_missing_inputs_are_refused():
    with pytest.raises(ShapeError, match="input 0 is missing"):
        opened().execute([None], (), RunOptions())


def test_a_run_is_stopped_before_it_begins():
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        opened().execute(feed(chain()), (), RunOptions(stop=stop))


def test_errors_of_a_supervised_run_are_those_of_the_session():
    wrong = [np.zeros((1, 2), np.float32)]
    with pytest.raises(Exception, match="Invalid rank for input"):
        opened().execute(wrong, (), RunOptions(timeout_ns=10**10))


def test_a_session_runs_in_a_forked_process():
    made, given = opened(), feed(chain())
    wanted = made.execute(given, (), RunOptions())[0]

    def same() -> int:
        return not np.array_equal(made.execute(given, (), RunOptions())[0], wanted)

    assert in_child(same) == 0
    assert same() == 0


def test_a_session_is_supervised_in_a_forked_process():
    made, given = opened(), feed(chain())
    limited = RunOptions(timeout_ns=SECONDS * 10**9)
    assert in_child(lambda: len(made.execute(given, (), limited)) - 1) == 0


def test_a_forked_process_may_drop_its_parents_sessions_and_open_its_own():
    """The threads of the session sleep: destroying it would wait for them in the child."""
    gc.collect()  # sessions of other tests, which are ONNX Runtime's own
    held = [opened()]
    held[0].execute(feed(chain()), (), RunOptions())
    time.sleep(0.05)  # the threads stop spinning

    def drop() -> int:
        held.clear()
        gc.collect()
        held.append(opened())
        held[0].execute(feed(chain()), (), RunOptions())
        held.clear()
        return 0

    assert in_child(drop) == 0


def test_a_fork_waits_for_the_end_of_a_run():
    """Locks that ONNX Runtime holds meanwhile would stay locked in the child."""
    made = opened()
    begun, go, events = Event(), Event(), []

    class Slow:
        def run(self, *_: object) -> list[np.ndarray]:
            begun.set()
            go.wait(SECONDS)
            events.append("ran")
            return [np.zeros(1)]

    made.session = Slow()
    runner = Thread(target=made.execute, args=(feed(chain()), (), RunOptions()))
    runner.start()
    begun.wait(SECONDS)
    forker = Thread(target=lambda: (in_child(lambda: 0), events.append("forked")))
    forker.start()
    time.sleep(0.05)  # a fork that does not wait would be over
    go.set()
    runner.join(SECONDS)
    forker.join(SECONDS)
    assert events == ["ran", "forked"]
    assert not CONCURRENT_RUNS._running


LARGE = 1 << 16
"""Bytes of outputs from which on they are not copied."""


def doubled(code: OperandCode, size: int) -> Model:
    """Doubles its input, or negates a truth value."""
    operand = Operand(code, (size,), *((0.5, 3) if code in (Q8, Q8S) else ()))
    if code is BOOL8:
        return one(spec.LOGICAL_NOT, [operand], [operand])
    net = Network(operand)
    return net.model(net.operation(spec.ADD, [*net.inputs * 2, 0], operand))


def executed(model: Model, inputs: list[np.ndarray], out: np.ndarray | None) -> np.ndarray:
    found = open_model(model, None, Threads(1))
    (result,) = found.execute(inputs, [out], RunOptions())
    return result


@pytest.mark.parametrize("bytes_", [LARGE - 16, LARGE], ids=["copied", "bound"])
@pytest.mark.parametrize("code", [F32, F16, I32, Q8, Q8S, BOOL8], ids=str)
def test_outputs_are_written_where_the_caller_wants_them(code, bytes_):
    model = doubled(code, bytes_ // code.numpy.itemsize)
    given = feed(model)
    wanted = executed(model, given, None)
    out = np.empty_like(wanted)
    assert executed(model, given, out) is out
    np.testing.assert_array_equal(out, wanted, strict=True)


def test_an_output_may_be_in_the_memory_of_an_input():
    model = doubled(F32, LARGE)
    (x,) = feed(model)
    wanted = 2 * x
    result = executed(model, [x], x)
    np.testing.assert_array_equal(result, wanted)


def test_an_output_may_have_gaps():
    model = doubled(F32, LARGE)
    out = np.zeros((LARGE, 2), np.float32)[:, 0]
    (x,) = feed(model)
    np.testing.assert_array_equal(executed(model, [x], out), 2 * x)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE + 1])
def test_large_outputs_of_another_shape_are_refused(size):
    model = doubled(F32, LARGE)
    with pytest.raises(RuntimeFailure, match=f"the output has \\({LARGE},\\)"):
        executed(model, feed(model), np.zeros(size, np.float32))


def provider() -> onnxruntime.OrtEpDevice:
    """ONNX Runtime's CPU provider, as it lists those of plugin libraries."""
    return next(d for d in onnxruntime.get_ep_devices() if d.ep_name == "CPUExecutionProvider")


def test_a_model_runs() -> None:
    x = Operand(F32, (3,))
    found = open_on_provider(one(spec.ABS, [x], [x]), provider(), Threads(1))
    (result,) = found.execute([np.array([-1, 0, 2], np.float32)], (), RunOptions())
    assert result.tolist() == [1.0, 0.0, 2.0]


def test_large_weights_are_given_apart() -> None:
    given = Operand(F32, (1, 600)), np.ones((2, 600)), np.array([0.5, -0.5]), 0
    model = one(spec.FULLY_CONNECTED, given, [Operand(F32, (1, 2))])
    found = open_on_provider(model, provider(), Threads())
    (result,) = found.execute([np.ones((1, 600), np.float32)], (), RunOptions())
    assert result.tolist() == [[600.5, 599.5]]


def test_what_has_no_onnx_form_is_refused() -> None:
    with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
        open_on_provider(relu(Operand(F32, (0, 3))), provider(), Threads())


@pytest.mark.parametrize(("inputs", "nodes"), [(7, 1), (8, 2), (13, 2), (14, 3), (20, 4)])
def test_concats_of_many_inputs_are_divided(inputs: int, nodes: int) -> None:
    given = [*[Operand(F32, (2,))] * inputs, 0]
    converted = convert(one(spec.CONCATENATION, given, [Operand(F32, (2 * inputs,))]))
    graph = converted.proto.graph
    assert [node.op_type for node in graph.node] == ["Concat"] * nodes
    assert max(len(node.input) for node in graph.node) <= 7
    arrays = [np.array([i, -i], np.float32) for i in range(inputs)]
    feeds = dict(zip(converted.model().inputs, arrays, strict=True))
    (found,) = ReferenceEvaluator(converted.proto).run(None, feeds)
    np.testing.assert_array_equal(found, np.concatenate(arrays))


@pytest.mark.parametrize(("outputs", "nodes"), [(7, ["Split"]), (8, ["Slice"] * 8)])
def test_splits_into_many_parts_are_slices(outputs: int, nodes: list[str]) -> None:
    given = Operand(F32, (1, 2 * outputs)), 1, outputs
    converted = convert(one(spec.SPLIT, given, [Operand(F32, (1, 2))] * outputs))
    assert [node.op_type for node in converted.proto.graph.node] == nodes
    array = np.arange(2 * outputs, dtype=np.float32).reshape(1, -1)
    found = ReferenceEvaluator(converted.proto).run(None, {converted.model().inputs[0]: array})
    np.testing.assert_array_equal(np.concatenate(found, axis=1), array)
