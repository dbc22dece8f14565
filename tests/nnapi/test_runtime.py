"""The contract of every Runtime, on the host runtime and on its C API through the client of it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode
from ep_nnapi.nnapi.errors import NnapiError, RuntimeFailure, SpecError
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    Duration,
    RunOptions,
    Runtime,
)
from tests.nnapi.build import BOOL8, F32, I32, NONE, Q8, chain, constant, one, relu, tensor
from tests.runtimes import RUNTIMES

FLAG = tensor(BOOL8, 1)
X = np.float32([[-1, 0, 1], [2, -3, 4]])


@pytest.fixture(params=RUNTIMES.values(), ids=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return request.param()


def reference(runtime: Runtime) -> Device:
    """The device nnapi-reference, which is in every runtime."""
    return next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)


def compiled(runtime: Runtime, model: Model, options: CompileOptions | None = None) -> Compilation:
    return runtime.compile(model, reference(runtime), options or CompileOptions())


def summed(*dims: int) -> Model:
    """x + x, in tensors of these dimensions."""
    return one(spec.ADD, [tensor(F32, *dims), tensor(F32, *dims), NONE], [tensor(F32, *dims)])


def test_the_devices_and_the_level(runtime: Runtime) -> None:
    assert runtime.devices() == RUNTIMES["host"]().devices()
    assert reference(runtime).type.name == "CPU"
    assert runtime.feature_level == 8


@pytest.mark.parametrize("count", [32, 33, 5000])  # 128 bytes are copied when they are set
def test_constants_of_any_size(runtime: Runtime, count: int) -> None:
    weights = np.arange(count, dtype=np.float32)
    model = one(spec.ADD, [tensor(F32, count), constant(weights), NONE], [tensor(F32, count)])
    device = reference(runtime)
    assert runtime.supported(model, device) == (True,)
    (result,) = compiled(runtime, model).run([np.ones(count, np.float32)])
    np.testing.assert_array_equal(result, weights + 1)


def test_a_shared_model_is_equal_and_runs(runtime: Runtime) -> None:
    weights = np.arange(400, dtype=np.float32).reshape(4, 100)
    branch = one(spec.ADD, [tensor(F32, 4, 100), constant(weights), NONE], [tensor(F32, 4, 100)])
    data = tensor(F32, 4, 100)
    model = one(spec.IF, [FLAG, branch, branch, data], [data])
    shared = runtime.share(model)
    assert shared == model
    assert runtime.share(shared) == model
    (result,) = compiled(runtime, shared).run([np.array([True]), weights])
    np.testing.assert_array_equal(result, 2 * weights)


def test_scales_per_channel(runtime: Runtime) -> None:
    """Each output channel of a 1 x 1 convolution is the input times its weight's scale."""
    scales = ChannelQuantization(0, (0.5, 0.25))
    filters = Operand(spec.Q8C, (2, 1, 1, 1), channels=scales, value=Data.of(np.int8([[1], [1]])))
    inputs = [tensor(Q8, 1, 1, 1, 1, scale=1.0), filters, np.int32([0, 0]), 0, 0, 0, 0, 1, 1, 0]
    model = one(spec.CONV_2D, inputs, [tensor(Q8, 1, 1, 1, 2, scale=1)])
    (result,) = compiled(runtime, model).run([np.full((1, 1, 1, 1), 8, np.uint8)])
    np.testing.assert_array_equal(result.ravel(), [4, 2])


def test_an_omitted_constant(runtime: Runtime) -> None:
    """TRANSPOSE without a permutation reverses the dimensions."""
    none = Operand(I32, (0,), value=Omitted.NO_VALUE)
    model = one(spec.TRANSPOSE, [tensor(F32, 2, 3), none], [tensor(F32, 3, 2)])
    np.testing.assert_array_equal(compiled(runtime, model).run([X])[0], X.T)


def test_unknown_dimensions_are_those_of_each_run(runtime: Runtime) -> None:
    for model in (summed(0, 3), summed(0, 0), summed()):
        made = compiled(runtime, model)
        for rows in (2, 5, 2000, 1):  # 2000: more than the first buffer of the client holds
            x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
            np.testing.assert_array_equal(made.run([x, x])[0], 2 * x)
            out = np.empty_like(x)
            (result,) = made.run([x, x], [out])
            assert result is out
            np.testing.assert_array_equal(out, 2 * x)


def test_if_and_while_run_their_models(runtime: Runtime) -> None:
    data = tensor(F32, 2, 3)
    made = compiled(runtime, one(spec.IF, [FLAG, relu(data), negated(data), data], [data]))
    np.testing.assert_array_equal(made.run([np.array([True]), X])[0], np.maximum(X, 0))
    np.testing.assert_array_equal(made.run([np.array([False]), X])[0], -X)
    made = compiled(runtime, doubled_until(100.0))
    np.testing.assert_array_equal(made.run([np.float32([3])])[0], [192])


def negated(data: Operand) -> Model:
    return one(spec.NEG, [data], [data])


def doubled_until(limit: float) -> Model:
    """WHILE x < limit: x = x + x; of unknown dimensions inside."""
    inside, number = tensor(F32, 0), tensor(F32, 1)
    condition = one(spec.LESS, [inside, constant(np.float32([limit]))], [FLAG])
    body = Model((inside, NONE, inside), (Operation(spec.ADD, (0, 0, 1), (2,)),), (0,), (2,))
    return one(spec.WHILE, [condition, body, number], [number])


def test_outputs_are_written_where_the_caller_wants_them(runtime: Runtime) -> None:
    made, out = compiled(runtime, summed(2, 3)), np.empty((2, 3), np.float32)
    for factor in (1, 2, 3):  # the same buffers again: the client computes one execution again
        x = X * factor
        (result,) = made.run([x, x], [out])
        assert result is out
        np.testing.assert_array_equal(out, 2 * x)


def test_results_of_one_run_are_not_overwritten_by_the_next(runtime: Runtime) -> None:
    made = compiled(runtime, summed(2, 3))
    (first,) = made.run([X, X])
    made.run([X * 2, X * 2])
    np.testing.assert_array_equal(first, 2 * X)


WRONG: dict[str, tuple[list[object], list[object], str, str]] = {
    "type": ([X.astype(np.float64), X], [], "BAD_DATA", "input 0: float64 is given for"),
    "shape": ([X, X[:1]], [], "BAD_DATA", "input 1: shape"),
    "strided": ([X[:, ::2], X], [], "BAD_DATA", "not C-contiguous"),
    "count": ([X], [], "BAD_DATA", "1 inputs and 0 outputs are given for 2 and 1"),
    "output type": ([X, X], [X.astype(np.int32)], "BAD_DATA", "output 0: int32 is given"),
    "output shape": (
        [X, X],
        [np.empty((3, 2), np.float32)],
        "OUTPUT_INSUFFICIENT_SIZE",
        r"\(3, 2\), the output has \(2, 3\)",
    ),
}


@pytest.mark.parametrize(("inputs", "outputs", "code", "detail"), WRONG.values(), ids=WRONG)
def test_arrays_that_do_not_fit(runtime, inputs, outputs, code, detail):
    with pytest.raises(RuntimeFailure, match=detail) as caught:
        compiled(runtime, summed(2, 3)).run(inputs, outputs)
    assert caught.value.code == f"ANEURALNETWORKS_{code}"


def test_an_input_left_out_whose_value_is_needed_fails(runtime: Runtime) -> None:
    made = compiled(runtime, summed(2, 3))
    with pytest.raises(RuntimeFailure):
        made.run([None, X])
    np.testing.assert_array_equal(made.run([X, X])[0], 2 * X)  # and the next run works


def test_an_array_of_another_size_than_the_result_is_refused(runtime: Runtime) -> None:
    made = compiled(runtime, summed(0, 3))
    for rows in (1, 3):
        with pytest.raises(RuntimeFailure, match=r"the output has \(2, 3\)") as caught:
            made.run([X, X], [np.empty((rows, 3), np.float32)])
        assert caught.value.code == "ANEURALNETWORKS_OUTPUT_INSUFFICIENT_SIZE"


def test_illegal_models_are_refused_before_the_runtime_sees_them(runtime: Runtime) -> None:
    for ask in (runtime.supported, runtime.compile):
        with pytest.raises(SpecError, match="at least one operation"):
            ask(Model((), (), (), ()), reference(runtime))


def test_an_unknown_device_is_refused(runtime: Runtime) -> None:
    device = replace(reference(runtime), name="gpu")
    with pytest.raises(RuntimeFailure, match="there is no device gpu") as caught:
        runtime.compile(relu(), device)
    assert caught.value.code == "ANEURALNETWORKS_BAD_DATA"


def test_every_option_of_a_compilation_is_taken(runtime: Runtime, tmp_path: object) -> None:
    options = CompileOptions(
        PreferenceCode.LOW_POWER, PriorityCode.HIGH, str(tmp_path), b"\1" * 32, 10**11
    )
    for _ in range(2):  # the second time from the cache
        made = compiled(runtime, summed(2, 3), options)
        np.testing.assert_array_equal(made.run([X, X])[0], 2 * X)


def test_a_run_within_its_timeout_and_one_beyond(runtime: Runtime) -> None:
    made = compiled(runtime, summed(2, 3))
    out = np.empty((2, 3), np.float32)
    (result,) = made.run([X, X], [out], RunOptions(timeout_ns=10**11))
    assert result is out
    np.testing.assert_array_equal(out, 2 * X)
    with pytest.raises(RuntimeFailure, match="MISSED_DEADLINE"):
        made.run([X, X], [out], RunOptions(timeout_ns=1))


def test_an_endless_loop_ends_at_its_timeout(runtime: Runtime) -> None:
    made = compiled(runtime, doubled_until(np.inf))
    with pytest.raises(RuntimeFailure, match="MISSED_DEADLINE"):
        made.run([np.float32([0])], (), RunOptions(loop_timeout_ns=50_000_000))


def test_stop_is_called_and_ends_the_run(runtime: Runtime) -> None:
    class Stopped(NnapiError):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        compiled(runtime, summed(2, 3)).run([X, X], (), RunOptions(stop=stop))


def test_a_library_measures_what_the_host_runtime_does_not() -> None:
    for name, make in RUNTIMES.items():
        found: list[Duration] = []
        made = compiled(make(), summed(2, 3))
        made.run([X, X], (), RunOptions(measure=found.append))
        assert len(found) == (name == "library")
        for duration in found:
            assert 0 < duration.on_hardware <= duration.in_driver


def test_threads_share_a_compilation(runtime: Runtime) -> None:
    made = compiled(runtime, summed(64, 64))

    def run(seed: int) -> bool:
        x = np.full((64, 64), seed, np.float32)
        return all((made.run([x, x])[0] == 2 * seed).all() for _ in range(20))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(16)))


def test_operations_run_in_an_order_that_is_possible(runtime: Runtime) -> None:
    forwards = chain((0, 1), (1, 2), (2, 3))
    model = replace(forwards, operations=forwards.operations[::-1])
    assert runtime.supported(model, reference(runtime)) == (True,) * 3
    np.testing.assert_array_equal(compiled(runtime, model).run([X])[0], np.maximum(X, 0))


def test_relaxed_models_are_taken(runtime: Runtime) -> None:
    """1.5 is exact in float16, so both ways of computing agree."""
    made = compiled(runtime, replace(summed(1), relaxed=True))
    np.testing.assert_array_equal(made.run([np.float32([1.5])] * 2)[0], [3])
