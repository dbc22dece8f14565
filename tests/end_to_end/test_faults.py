"""Sessions survive a device that declines or fails; `run` names one that miscalculates."""

import json
import logging
from weakref import WeakKeyDictionary

import numpy as np
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics.session_runs import provider_of_session
from ep_nnapi.options.table import parse
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.provider import device_health
from ep_nnapi.sessions.cpu import session_of
from tests.faulty import FAULTY, FaultyDevice, installed
from tests.onnx_graph import parsed

DIGITS = "models/digits.onnx"
CLOSE = 1e-5  # both sum the same float32 products in another order


def session(**options: object) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen, **options)
    return ort.InferenceSession(DIGITS, chosen)


def assert_right(made: ort.InferenceSession) -> None:
    images = np.load("models/digits/samples.npz")["images"]
    cpu = session_of(DIGITS)
    for image in images:
        (got,), (want,) = (s.run(None, {"image": image[None]}) for s in (made, cpu))
        assert np.abs(got - want).max() <= CLOSE * max(1, np.abs(want).max())


def test_a_declined_operation_goes_to_the_cpu_with_reason_driver() -> None:
    with installed(FaultyDevice(declines=frozenset({"MAX_POOL_2D"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert [(r.op_type, r.reason) for r in report.rejections] == [
        ("MaxPool", ep_nnapi.Reason.DRIVER)
    ] * 2
    assert all("faulty declines MAX_POOL_2D" in r.detail for r in report.rejections)
    assert [len(c.nodes) for c in report.clusters] == [2, 2, 2]


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_every_nth_operation_declined(every: int) -> None:
    with installed(FaultyDevice(every=every)) as device:
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert report.capable == report.nodes == 8
    assert report.taken + len(report.rejections) == 8
    assert bool(device.compiled) == bool(report.clusters)


def test_a_compilation_that_fails_in_spite_of_a_yes_leaves_its_cluster_to_the_cpu() -> None:
    with installed(FaultyDevice(fails_on=frozenset({"FULLY_CONNECTED"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.DRIVER}
    assert "no FULLY_CONNECTED today" in report.rejections[0].detail


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
@pytest.mark.parametrize("failing", [0, 3])
def test_a_failing_run_is_taken_over(
    fallback: str, failing: int, caplog: pytest.LogCaptureFixture
) -> None:
    with installed(FaultyDevice(fails_at=frozenset({failing}))), caplog.at_level(logging.WARNING):
        assert_right(session(fallback=fallback))
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.compiled_cluster"
    ]
    assert "device faulty failed" in warning
    assert f"fallback={fallback}" in warning


def test_without_fallback_the_failure_is_an_onnxruntime_error_with_our_sentence() -> None:
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        made = session(fallback="none")
        with pytest.raises(Exception, match="out of luck"):
            made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_run_reports_a_device_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FaultyDevice(fails_at=frozenset({0}))):
        assert main(["run", DIGITS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (failure,) = found["failures"]
    assert "out of luck" in failure
    assert found["fallback_runs"] == 1


def test_run_exits_3_when_nothing_stands_in(capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        assert main(["run", DIGITS, "--fallback", "none"]) == 3
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "ANEURALNETWORKS_OP_FAILED" in captured.err


def test_run_names_a_device_that_miscalculates(capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FaultyDevice(wrong=0.5)):
        assert main(["run", DIGITS]) == 1
    printed = capsys.readouterr().out
    assert "beyond the tolerance" in printed
    assert f"device {FAULTY} computes wrongly" in printed


DEFECTS = {
    "an exception": lambda results: results[1:2][0],
    "no result": lambda results: [],
    "another type": lambda results: [r.astype(np.float64) for r in results],
    "another shape": lambda results: [r[..., :-1] for r in results],
    "no array": lambda results: [r.tolist() for r in results],
}


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_a_defect_below_the_device_interface_is_taken_over(
    fallback: str, defect: object, caplog: pytest.LogCaptureFixture
) -> None:
    with installed(FaultyDevice(defect=defect)), caplog.at_level(logging.WARNING):
        assert_right(session(fallback=fallback))
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.compiled_cluster"
    ]
    assert "device faulty failed" in warning
    assert "ANEURALNETWORKS_OP_FAILED" in warning


def test_a_device_that_answers_for_too_few_operations_is_left_out() -> None:
    class Short(FaultyDevice):
        def supported(self, model: object) -> tuple[bool, ...]:
            return (True,)

    with installed(Short()):
        report = ep_nnapi.check(DIGITS)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.DRIVER}
    assert "faulty answers for 1 of " in report.rejections[0].detail


def test_of_many_failures_the_last_few_are_kept_without_their_frames() -> None:
    """Frames would hold arrays over buffers that ONNX Runtime has freed."""
    with (
        installed(FaultyDevice(fails_at=frozenset({-1}))),
        provider_of_session(parse({"fallback": "none"})) as (strings, found),
    ):
        ep_nnapi.register()
        providers = [(EP_NAME, strings), "CPUExecutionProvider"]
        made = ort.InferenceSession(DIGITS, providers=providers)
        for _ in range(50):
            with pytest.raises(Exception, match="out of luck"):
                made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        (cluster,) = found().clusters
    kept = tuple(cluster.failures)
    assert cluster.failures.count == 50
    assert len(kept) == len(found().failures) == 8
    assert {(f.__traceback__, f.__context__, f.__cause__) for f in kept} == {(None, None, None)}


def gather() -> bytes:
    text = """(int32[2] index) => (float[2,3] y) {
        [gather] rows = Gather (data, index) [relu] y = Relu (rows) }"""
    return parsed(text, data=np.eye(3, dtype=np.float32)).SerializeToString()


def test_inputs_that_cannot_be_computed_do_not_cost_other_models_the_reference_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device of hardware is left out after the third cluster that fails on it."""
    monkeypatch.setattr(device_health, "_HEALTH", WeakKeyDictionary())
    model = gather()
    for _ in range(device_health.MOST_FAILURES):
        options = ort.SessionOptions()
        ep_nnapi.append_execution_provider(options, device="nnapi-reference", fallback="none")
        outside = ort.InferenceSession(model, options)
        with pytest.raises(Exception, match="OP_FAILED"):
            outside.run(None, {"index": np.array([0, 3], np.int32)})
    report = ep_nnapi.check(model, device="nnapi-reference")
    assert (report.taken, report.nodes) == (2, 2)
