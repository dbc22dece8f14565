"""One case on the CPU provider and, where that passes, with the provider in front of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import onnx
import onnxruntime
from onnx.backend.test.runner import Runner

from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.onnx_backend.cases import Case
from tests.onnx_backend.delegation import delegated, provider_session, require_sound

# A function's body in half precision has each tensor between its nodes rounded, where the CPU
# provider goes on in float32: four units of half precision instead of the loader's one or two.
ROUNDED_BETWEEN = 2.0**-8


class Verdict(StrEnum):
    """Outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    CPU_FAILS = "the CPU provider fails too"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a case at one feature level; what was delegated, or what went wrong."""

    case: str
    level: int
    verdict: Verdict
    delegated: frozenset[tuple[str, str]] = frozenset()
    detail: str = ""


def quiet() -> onnxruntime.SessionOptions:
    """Options for an oracle, with one thread: the models are tiny."""
    options = exact_options()
    options.intra_op_num_threads = 1
    return options


def attempt(case: Case, levels: Sequence[int]) -> list[Outcome]:
    """The case at each feature level; one outcome only when the CPU provider does not pass."""
    try:
        session = session_of(case.model, quiet())
        _compare(case, session.run(None, dict(case.feeds)))
    except Exception as error:  # anything ONNX Runtime or numpy raises
        return [Outcome(case.name, 0, Verdict.CPU_FAILS, detail=_short(error))]
    return [_on_nnapi(case, level) for level in levels]


def _on_nnapi(case: Case, level: int) -> Outcome:
    try:
        with provider_session(case.model, quiet(), {"feature_level": level}) as (session, found):
            provider = found()
            _compare(case, session.run(None, dict(case.feeds)))
            require_sound(provider)
            kinds = delegated(onnx.load_from_string(case.model), session, provider)
    except Exception as error:
        return Outcome(case.name, level, Verdict.FAILED, detail=_short(error))
    return Outcome(case.name, level, Verdict.PASSED, frozenset(kinds))


def _compare(case: Case, got: Sequence[Any]) -> None:
    rtol = case.rtol
    if "fp16_expanded" in case.name:
        rtol = max(rtol, ROUNDED_BETWEEN)
    Runner.assert_similar_outputs(list(case.expected), list(got), rtol, case.atol)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
