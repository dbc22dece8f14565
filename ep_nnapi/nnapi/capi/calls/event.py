# ruff: noqa: N802 (functions have the NDK's names)
"""Events. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi.c_arguments import require
from ep_nnapi.nnapi.capi.refusal import bad_data
from ep_nnapi.nnapi.capi.registry import EVENTS

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


def Event_wait(event: int) -> None:
    """Waits for the execution to end; returns its result code."""
    EVENTS[event].wait()


def Event_free(event: int) -> None:
    """Waits for the execution to end, then releases the handle."""
    found = EVENTS.remove(event)
    if found is not None:
        found.wait_for_result_code()


def Event_createFromSyncFenceFd(fd: int, out: CData) -> None:
    """Always BAD_DATA: this system has no Android sync fences."""
    require(out, "event")
    out[0] = 0
    raise bad_data(f"descriptor {fd} is no sync fence")


def Event_getSyncFenceFd(event: int, out: CData) -> None:
    """Always BAD_DATA, as the NDK specifies for events without a sync fence."""
    require(out, "sync_fence_fd")
    out[0] = -1
    EVENTS[event]
    raise bad_data("the event is not backed by a sync fence")
