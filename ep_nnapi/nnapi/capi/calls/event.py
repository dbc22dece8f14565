# ruff: noqa: N802 (functions have the NDK's names)
"""Events. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi.reading import require
from ep_nnapi.nnapi.capi.refusal import bad_data
from ep_nnapi.nnapi.capi.registry import EVENTS

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


def Event_wait(event: int) -> None:
    """Returns when the execution has ended, with the code it ended with."""
    EVENTS[event].wait()


def Event_free(event: int) -> None:
    """Ends the handle once the execution has ended."""
    found = EVENTS.remove(event)
    if found is not None:
        found.settle()


def Event_createFromSyncFenceFd(fd: int, out: CData) -> None:
    """Always BAD_DATA: no descriptor of this system is a sync fence of Android's."""
    require(out, "event")
    out[0] = 0
    raise bad_data(f"descriptor {fd} is no sync fence")


def Event_getSyncFenceFd(event: int, out: CData) -> None:
    """Always BAD_DATA, as the NDK says of events that no sync fence stands behind."""
    require(out, "sync_fence_fd")
    out[0] = -1
    EVENTS[event]
    raise bad_data("the event is not backed by a sync fence")
