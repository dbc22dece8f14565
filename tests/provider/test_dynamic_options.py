"""Options of a session that change after its creation."""

from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.diagnostics.session_runs import open_session
from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.options.table import Options
from ep_nnapi.provider.dynamic_options import Current, changed, nanoseconds
from ep_nnapi.provider.provider import Provider
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_backend.trial import quiet

DIGITS = str(Path(__file__).parents[2] / "models" / "digits.onnx")
INITIAL = Current(CompileOptions(PreferenceCode.SUSTAINED_SPEED), RunOptions())
X = {"image": np.zeros((1, 1, 8, 8), np.float32)}


@pytest.mark.parametrize(
    ("given", "preference", "priority", "timeout"),
    [
        ({}, "SUSTAINED_SPEED", "MEDIUM", None),
        ({"priority": "high"}, "SUSTAINED_SPEED", "HIGH", None),
        ({"preference": "low_power"}, "LOW_POWER", "MEDIUM", None),
        ({"execution_timeout": "0.5"}, "SUSTAINED_SPEED", "MEDIUM", 500_000_000),
        ({"ep.dynamic.workload_type": "Efficient"}, "LOW_POWER", "MEDIUM", None),
    ],
)
def test_options_change_one_by_one(given, preference, priority, timeout):
    now = changed(INITIAL, INITIAL, given)
    assert now.options.preference is PreferenceCode[preference]
    assert now.options.priority is PriorityCode[priority]
    assert now.limits.timeout_ns == timeout


def test_the_default_workload_has_the_preference_of_the_sessions_creation():
    efficient = changed(INITIAL, INITIAL, {"ep.dynamic.workload_type": "Efficient"})
    assert changed(efficient, INITIAL, {"ep.dynamic.workload_type": "Default"}) == INITIAL


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flags": "1"}, "'flags' is no dynamic option; there are preference, priority,"),
        ({"prioriti": "low"}, "did you mean 'priority'|priority"),
        ({"priority": "urgent"}, "priority is 'urgent'"),
        ({"execution_timeout": "-1"}, "execution_timeout is"),
        ({"ep.dynamic.workload_type": "Fast"}, "is 'Fast', not Default or Efficient"),
    ],
)
def test_unknown_ones_and_malformed_values_are_refused(given: dict[str, str], message: str):
    with pytest.raises(OptionError, match=message):
        changed(INITIAL, INITIAL, given)


def test_a_limit_is_at_least_a_nanosecond():
    assert (nanoseconds(None), nanoseconds(1e-12), nanoseconds(2)) == (None, 1, 2_000_000_000)


def test_a_session_compiles_again_for_its_next_run(monkeypatch: pytest.MonkeyPatch):
    provider = Provider(Options())
    session = open_session(DIGITS, quiet(), provider)
    expected = session.run(None, X)[0]
    seen = []
    compiler = type(provider.clusters[0].compiler)
    compile_cluster = compiler.compile

    def compile_and_note(self, lowered):
        seen.append(self.current.options.priority)
        return compile_cluster(self, lowered)

    monkeypatch.setattr(compiler, "compile", compile_and_note)
    session.set_ep_dynamic_options({"priority": "high"})
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, X)[0], expected)
    assert seen == [PriorityCode.HIGH]
    session.set_ep_dynamic_options({"ep.nnapipluginexecutionprovider.execution_timeout": "60"})
    session.run(None, X)
    assert seen == [PriorityCode.HIGH]  # a limit of runs needs no compilation


def test_a_session_refuses_an_unknown_option():
    session = nnapi_session(DIGITS)
    with pytest.raises(RuntimeError, match="'colour' is no dynamic option"):
        session.set_ep_dynamic_options({"colour": "red"})
