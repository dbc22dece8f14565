"""The end of a process of C while executions run."""

from __future__ import annotations

from functools import cache

from ep_nnapi.nnapi.capi._native import ffi, lib
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS


@cache
def wait_at_exit() -> None:
    """Have the end of the process wait for executions; call it once ONNX Runtime is loaded.

    Its destructors, which run when the process ends, do not wait. Python's own exit handlers do,
    but a program of C never calls them.
    """
    lib.watch_exit()


@ffi.def_extern(name="before_exit")
def _before_exit() -> None:
    CONCURRENT_RUNS.before_exit()
