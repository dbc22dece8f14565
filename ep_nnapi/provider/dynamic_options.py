"""Options that may change while a session exists: priority, preference and deadline of runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode
from ep_nnapi.nnapi.errors import OptionError, suggestion
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.options.table import parse
from ep_nnapi.options.values import Preference

_WORKLOAD_TYPE = "ep.dynamic.workload_type"
"""ONNX Runtime's own dynamic option. Source: kOrtEpDynamicOptionsWorkloadType."""
_WORKLOADS = {"Default": None, "Efficient": Preference.LOW_POWER}
_NAMES = ("preference", "priority", "execution_timeout")


@frozen
class Current:
    """Options of compilations and limits of runs, as they are now."""

    options: CompileOptions
    limits: RunOptions


def nanoseconds(seconds: float | None) -> int | None:
    """Returns a time limit in nanoseconds, at least 1; None for no limit."""
    return None if seconds is None else max(1, round(seconds * 1e9))


def changed(current: Current, initial: Current, given: Mapping[str, str]) -> Current:
    """Returns the current options with those of `given` changed.

    initial  options of the session's creation; workload type Default restores their preference
    Raises OptionError for an unknown name or a malformed value.
    """
    for name in given:
        if name not in (*_NAMES, _WORKLOAD_TYPE):
            names = ", ".join((*_NAMES, _WORKLOAD_TYPE))
            near = suggestion(name, (*_NAMES, _WORKLOAD_TYPE))
            raise OptionError(f"{name!r} is no dynamic option; there are {names}{near}")
    parsed = parse({k: v for k, v in given.items() if k in _NAMES})
    options, limits = current.options, current.limits
    if _WORKLOAD_TYPE in given:
        options = replace(options, preference=_workload(given[_WORKLOAD_TYPE], initial))
    if "preference" in given:
        options = replace(options, preference=PreferenceCode[parsed.preference.name])
    if "priority" in given:
        options = replace(options, priority=PriorityCode[parsed.priority.name])
    if "execution_timeout" in given:
        limits = replace(limits, timeout_ns=nanoseconds(parsed.execution_timeout))
    return Current(options, limits)


class ThisRun(threading.local):
    """Options and limits of the run of this thread; None if they are the session's."""

    current: Current | None = None


def changed_for_run(current: Current, given: Mapping[str, str]) -> Current:
    """Returns the current options with those of `given` changed for one run; as `changed`."""
    for name in given:
        if name not in _NAMES:
            raise OptionError(f"{name!r} is no option of a run; there are {', '.join(_NAMES)}")
    return changed(current, current, given)


def _workload(kind: str, initial: Current) -> PreferenceCode:
    if kind not in _WORKLOADS:
        raise OptionError(f"{_WORKLOAD_TYPE} is {kind!r}, not {' or '.join(_WORKLOADS)}")
    preference = _WORKLOADS[kind]
    return initial.options.preference if preference is None else PreferenceCode[preference.name]
