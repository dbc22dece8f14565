"""Options of single runs, given as entries of their RunOptions."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.options.table import OPTIONS
from tests.end_to_end.sessions import nnapi_session
from tests.ort.models import abs_add

PREFIX = "ep.nnapipluginexecutionprovider."
X = {"x": np.ones((2, 3), np.float32)}
Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail


def session(**options: object) -> onnxruntime.InferenceSession:
    return nnapi_session(abs_add(), severity=4, device="nnapi-reference", **options)


def run(opened: onnxruntime.InferenceSession, entries: Mapping[str, str] | None = None) -> None:
    options = onnxruntime.RunOptions()
    for name, value in (entries or {}).items():
        options.add_run_config_entry(f"{PREFIX}{name}", value)
    np.testing.assert_array_equal(opened.run(None, X, options)[0], 2 * X["x"])


SECOND = 1_000_000_000


def tens_of_seconds(duration_ns: int | None) -> int | None:
    """Rounded up: through the C API, a run has what is left until its deadline."""
    return duration_ns and -(-duration_ns // (10 * SECOND)) * 10 * SECOND


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """The limits of all runs on nnapi-reference."""
    seen: list[RunOptions] = []
    execute = PreparedGraph.execute

    def noted(self, inputs, outputs, options):
        seen.append(replace(options, timeout_ns=tens_of_seconds(options.timeout_ns)))
        return execute(self, inputs, outputs, options)

    monkeypatch.setattr(PreparedGraph, "execute", noted)
    return seen


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Preference and priority of all compilations on nnapi-reference."""
    seen: list[tuple[str, str]] = []
    prepare = ReferenceDevice.prepare

    def noted(self, model, options: CompileOptions):
        seen.append((options.preference.name, options.priority.name))
        return prepare(self, model, options)

    monkeypatch.setattr(ReferenceDevice, "prepare", noted)
    return seen


def test_a_deadline_is_that_of_one_run(limits: list[RunOptions]):
    opened = session(execution_timeout=60)
    run(opened, {"execution_timeout": "20.0"})
    run(opened)
    assert [o.timeout_ns for o in limits] == [20 * SECOND, 60 * SECOND]


def test_each_priority_and_preference_is_compiled_once(compilations: list[tuple[str, str]]):
    opened = session()
    session_s = ("FAST_SINGLE_ANSWER", "MEDIUM")
    assert compilations == [session_s]
    given = [{"priority": "low"}, {}, {"priority": "low", "preference": "low_power"}, {}]
    for entries in given * 2:
        run(opened, entries)
    assert compilations == [session_s, ("FAST_SINGLE_ANSWER", "LOW"), ("LOW_POWER", "LOW")]


def test_dynamic_options_hold_where_a_run_has_no_own(limits: list[RunOptions]):
    opened = session()
    opened.set_ep_dynamic_options({"execution_timeout": "30"})
    run(opened, {"priority": "high"})
    run(opened, {"execution_timeout": "20"})
    assert [o.timeout_ns for o in limits] == [30 * SECOND, 20 * SECOND]


def test_runs_of_other_threads_have_their_own(limits: list[RunOptions]):
    opened = session()
    threads = [
        threading.Thread(target=run, args=(opened, {"execution_timeout": str(seconds)}))
        for seconds in range(10, 90, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = sorted((o.timeout_ns or 0) // SECOND for o in limits)
    assert seconds == list(range(10, 90, 10))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"priority": "urgent"}, "priority is 'urgent'"),
        ({"execution_timeout": "-1"}, "execution_timeout is"),
        ({"preference": "fast"}, "preference is 'fast'"),
        ({"flags": "1"}, "'flags' is no option of a run; there are preference, priority,"),
    ],
)
def test_what_is_wrong_is_the_runs_error(limits, entries, message):
    """Also if another entry is right; the next run is not affected."""
    opened = session()
    with pytest.raises(Fail, match=message):
        run(opened, {"execution_timeout": "5", **entries})
    assert limits == []
    run(opened)
    assert [o.timeout_ns for o in limits] == [None]


@pytest.mark.parametrize("name", [o.name for o in OPTIONS])
def test_every_option_of_a_session_is_noticed(name: str):
    opened = session()
    if name in ("preference", "priority", "execution_timeout"):
        run(opened, {name: {"preference": "low_power", "priority": "low"}.get(name, "9")})
        return
    with pytest.raises(Fail, match=f"'{name}' is no option of a run"):
        run(opened, {name: "1"})


def test_a_session_without_clusters_does_not_look_for_options():
    run(session(exclude="Abs,Add"), {"priority": "urgent"})


def test_entries_of_others_are_theirs():
    opened = session()
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("ep.otherexecutionprovider.priority", "urgent")
    np.testing.assert_array_equal(opened.run(None, X, options)[0], 2 * X["x"])


def test_a_run_that_fails_leaves_its_options_behind(limits: list[RunOptions], monkeypatch):
    opened = session(fallback="none")

    def broken(self, inputs, outputs, options) -> None:
        raise MemoryError

    failing: Callable[..., None] = broken
    with monkeypatch.context() as patched:
        patched.setattr(PreparedGraph, "execute", failing)
        with pytest.raises(Fail, match="OUT_OF_MEMORY"):
            run(opened, {"execution_timeout": "5"})
    run(opened)
    assert [o.timeout_ns for o in limits] == [None]
