"""Fused nodes run without Python where nothing needs it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.ort import compute, plugin
from ep_nnapi.ort_devices import session as inner
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import serialized
from tests.ort.models import abs_add
from tests.programs import in_child
from tests.runtimes import host_only

pytestmark = [host_only, pytest.mark.usefixtures("no_run_is_long")]
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def start(content: bytes, threads: int = 1, **attributes: object) -> onnxruntime.InferenceSession:
    attributes |= {"intra_op_num_threads": threads}
    return nnapi_session(content, severity=4, attributes=attributes, device="host-cpu")


def of(text: str, **constants: object) -> onnxruntime.InferenceSession:
    return start(serialized(text, **constants))


def repeat(run: Callable[[], list[np.ndarray]], wanted: np.ndarray, times: int = 3) -> None:
    for _ in range(times):
        np.testing.assert_array_equal(run()[0], wanted)


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_need_no_python(calls: list[str], threads: int):
    session = start(abs_add(), threads)
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert not calls


def test_the_second_run_of_much_work_needs_no_python(calls: list[str], monkeypatch):
    """The first may be long, as far as the work says, and then has to end where the user wants."""
    monkeypatch.setattr(inner, "_RATE", 1e-6)
    session = start(abs_add())
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert calls == ["run"]


@pytest.mark.parametrize("device", ["nnapi-reference", "host-cpu"])
def test_a_run_of_python_takes_few_calls_to_look_for_another_way(
    device: str, monkeypatch: pytest.MonkeyPatch
):
    """What sizes a compilation holds for stays the same: it was put together after each run."""
    asked, offer = [0], compute.DirectSlot.offer

    def counted(slot: compute.DirectSlot) -> None:
        asked.append(0)

        def count(frame: object, event: str, argument: object) -> None:
            asked[-1] += event.endswith("call")

        before = sys.getprofile()
        sys.setprofile(count)
        offer(slot)
        sys.setprofile(before)

    monkeypatch.setattr(compute.DirectSlot, "offer", counted)
    given = {"device": device, "partitioning": "maximal"}
    session = nnapi_session(abs_add(("rows", 3)), severity=4, **given)
    for x in (X, *[np.empty((0, 3), np.float32)] * 3):  # without elements in Python alone
        session.run(None, {"x": x})
    assert len(asked) > 4
    assert max(asked[-2:]) < 100


def test_tensors_are_found_by_their_names(calls: list[str]):
    """Inputs and outputs of the graph in another order than those of the cluster."""
    session = of(
        """(float[2,3] a, float[2,3] b) => (float[2,3] e, float[2,3] c) {
        c = Sub (b, a) d = Mul (c, a) e = Div (d, b) }"""
    )
    a, b = np.full_like(X, 2), X
    for _ in range(3):
        e, c = session.run(None, {"a": a, "b": b})
        np.testing.assert_array_equal(c, b - a)
        np.testing.assert_allclose(e, (b - a) * a / b, rtol=1e-6)  # division may be reciprocal
    assert not calls


def test_bound_outputs_are_written(calls: list[str]):
    session = start(abs_add())
    y = np.zeros_like(X)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    for _ in range(3):
        y[:] = 0
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, np.abs(X) + X)
    assert not calls


def test_tensors_that_are_permuted_need_python(calls: list[str]):
    """At feature level 1 NNAPI has no TRANSPOSE, so the images change their layout outside."""
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    text = "(float[1,2,4,4] x) => (float[1,1,4,4] y) { y = Conv (x, w) }"
    content = serialized(text, w=np.ones((1, 2, 1, 1), np.float32))
    session = nnapi_session(content, severity=4, device="host-cpu", feature_level=1)
    repeat(lambda: session.run(None, {"x": x}), x.sum(1, keepdims=True))
    assert calls == ["run"] * 3


def test_scalars_need_no_python(calls: list[str]):
    """They have one axis inside; INT64 ones are INT32 too."""
    text = """(float[2,3] x, float s) => (float[2,3] y, float most, int64 place) {
        a = Abs (s) y = Add (x, a) most = ReduceMax <keepdims = 0> (y)
        r = Reshape (y, all) place = ArgMax <keepdims = 0> (r) }"""
    session = of(text, all=[6])
    for number in (-1, 2, -3):
        feeds = {"x": X, "s": np.array(number, np.float32)}
        y, most, place = session.run(None, feeds)
        np.testing.assert_array_equal(y, X + abs(number))
        assert (most.shape, most) == ((), 6 + abs(number))
        assert (place.shape, place.dtype, place) == ((), np.int64, 5)
    assert not calls


def test_five_axes_need_no_python(calls: list[str]):
    """NNAPI has four at most: inside they are one."""
    x = np.arange(64, dtype=np.float32).reshape(2, 2, 2, 2, 4)
    session = start(abs_add(x.shape))
    repeat(lambda: session.run(None, {"x": -x}), np.zeros_like(x))
    assert not calls


def test_int64_outputs_need_no_python(calls: list[str]):
    """They are INT32 inside: positions of extremes, and their distance, which may be negative."""
    session = of(
        """(float[2,3] x) => (int64[2] y, float[2,3] a, int64[2] low) { a = Abs (x)
        high = ArgMax <axis = 1, keepdims = 0> (a) low = ArgMin <axis = 1, keepdims = 0> (a)
        y = Sub (high, low) }"""
    )
    for x in (X, X[::-1].copy(), X[:, ::-1].copy()):
        y, a, low = session.run(None, {"x": x})
        assert (y.dtype, low.dtype) == (np.int64, np.int64)
        np.testing.assert_array_equal(y, np.abs(x).argmax(1) - np.abs(x).argmin(1))
        np.testing.assert_array_equal(low, np.abs(x).argmin(1))
        np.testing.assert_array_equal(a, np.abs(x))
    assert not calls


def test_int64_inputs_need_no_python(calls: list[str]):
    """They are INT32 inside: Gather takes positions, also from the end; too large ones wrap."""
    text = (
        "(float[2,3] x, int64[2] i) => (float[2,2] y) { a = Abs (x) y = Gather <axis = 1> (a, i) }"
    )
    session = of(text)
    for _ in range(2):
        for positions in (np.array([0, 2]), np.array([-1, 1]), np.array([2**32 + 1, 0])):
            (y,) = session.run(None, {"x": X, "i": positions})
            np.testing.assert_array_equal(y, np.abs(X)[:, positions.astype(np.int32)])
    assert not calls


def test_a_profile_has_every_run(calls: list[str], tmp_path: Path):
    session = start(abs_add(), enable_profiling=True, profile_file_prefix=str(tmp_path / "p"))
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    assert len([e for e in events if e["name"] == "NNAPI cluster"]) == 3
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert calls == ["run"] * 4


def test_changed_options_are_seen_by_the_next_run(calls: list[str]):
    session = start(abs_add())
    run = lambda: session.run(None, {"x": X})  # noqa: E731
    repeat(run, np.abs(X) + X)
    session.set_ep_dynamic_options({"execution_timeout": "60"})
    repeat(run, np.abs(X) + X)  # a limit needs Python
    assert calls == ["run"] * 3


def test_options_of_a_run_need_python(calls: list[str]):
    session = start(abs_add())
    limited = onnxruntime.RunOptions()
    limited.add_run_config_entry("ep.nnapipluginexecutionprovider.execution_timeout", "60")
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    repeat(lambda: session.run(None, {"x": X}, limited), np.abs(X) + X)
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert calls == ["run"] * 3


def test_a_terminated_run_ends_and_the_next_one_is_right(calls: list[str]):
    session = start(abs_add())
    session.run(None, {"x": X})
    options = onnxruntime.RunOptions()
    options.terminate = True
    with pytest.raises(Exception, match="terminate flag"):
        session.run(None, {"x": X}, options)
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert not calls


def test_after_a_long_run_the_next_one_goes_through_python(calls: list[str], monkeypatch):
    before = set(plugin.live_objects)
    session = start(abs_add())
    session.run(None, {"x": X})
    started = [found for key, (_, found) in plugin.live_objects.items() if key not in before]
    (node,) = [found for found in started if isinstance(found, compute.FusedNode)]
    assert node.direct is not None
    (entry,) = node.direct._entries
    ((run, _),) = entry.kept
    run.long_ns = -1
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X, 4)
    assert calls == ["run"] * 2


def test_after_an_error_python_runs_the_node(calls: list[str], monkeypatch: pytest.MonkeyPatch):
    """C code is told of an input that the session does not have."""
    made = compute._run_struct

    def with_other_names(*arguments: object) -> tuple[object, object]:
        run, owned = made(*arguments)
        run.input_names = run.output_names
        return run, owned

    monkeypatch.setattr(compute, "_run_struct", with_other_names)
    session = start(abs_add())
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert calls == ["run"] * 3


def test_a_forked_process_runs_its_parents_session():
    session = start(abs_add(), 2)
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
    assert in_child(lambda: int(session.run(None, {"x": X})[0][0, 1]) - 4) == 0
    repeat(lambda: session.run(None, {"x": X}), np.abs(X) + X)
