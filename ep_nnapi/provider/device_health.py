"""Failures of devices in this process: repetition, devices that are left out, what they decline."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from weakref import WeakKeyDictionary

from ep_nnapi.nnapi.codes import ResultCode, result_code
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure, Unresponsive, module_logger
from ep_nnapi.nnapi.runtime import Runtime

logger = module_logger(__name__)
T = TypeVar("T")

MOST_FAILURES = 3
"""Clusters that a device may fail in before it is left out for the rest of the process."""

TRANSIENT = frozenset(
    {
        ResultCode.MISSED_DEADLINE_TRANSIENT,
        ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
        ResultCode.DEAD_OBJECT,
    }
)
"""Result codes after which another try may succeed.

Source: NDK ResultCode: the first two name a state that passes; DEAD_OBJECT is a driver that has
ended, which Android starts again.
"""

RETRY_DELAY = 0.02
"""Seconds before another try; the NDK speaks of a short delay."""


_MAX_FAILURES = 8


class Failures:
    """Number of failures of a cluster's device, and the last few of them.

    Tracebacks are dropped: their frames would hold arrays over buffers that ONNX Runtime has freed,
    and memory would grow with every failing run.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[RuntimeFailure] = deque(maxlen=_MAX_FAILURES)

    def add(self, failure: RuntimeFailure) -> None:
        """Counts `failure` and stores a copy without traceback."""
        self.count += 1
        self._last.append(failure.of_cluster(failure.nodes))

    def __iter__(self) -> Iterator[RuntimeFailure]:
        """Iterates over the last failures, the latest one last."""
        return iter(tuple(self._last))


class DeviceHealth:
    """The failures of the devices of one runtime."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()
        self._left_out: dict[str, str] = {}

    def left_out(self, device: str) -> str | None:
        """Returns the reason why a device is no longer used; None if it is used."""
        return self._left_out.get(device)

    def report(self, device: str, failure: RuntimeFailure) -> None:
        """Counts a failure that made a cluster leave the device; the last straw is logged.

        A call that does not return is enough: the driver still holds what it was given.
        """
        self._failures[device] += 1
        count = self._failures[device]
        if self._left_out.get(device) or (
            count < MOST_FAILURES and not isinstance(failure, Unresponsive)
        ):
            return
        times = "does not respond" if isinstance(failure, Unresponsive) else f"failed {count} times"
        self._left_out[device] = f"{device} {times} and is left out; the last time {failure}"
        logger.warning("device %s, in this process", self._left_out[device])


_HEALTH: WeakKeyDictionary[object, DeviceHealth] = WeakKeyDictionary()


def health_of(runtime: Runtime) -> DeviceHealth:
    """Returns the health of a runtime's devices; all sessions on one library share it."""
    key: object = getattr(runtime, "functions", runtime)  # a LibraryRuntime is of one session
    found = _HEALTH.get(key)  # asked for in each run, so that no second one is made to be dropped
    return _HEALTH.setdefault(key, DeviceHealth()) if found is None else found


def repeatable(failure: RuntimeFailure) -> bool:
    """Returns True if the NDK says that another try may succeed."""
    return not isinstance(failure, Unresponsive) and result_code(failure) in TRANSIENT


def repeated(call: Callable[[], T]) -> T:
    """Returns the result of `call`, which is made once more after a transient failure."""
    try:
        return call()
    except RuntimeFailure as failure:
        if not repeatable(failure):
            raise
        logger.info("once more after a short delay: %s", failure)
    time.sleep(RETRY_DELAY)
    return call()


TOO_LARGE = {
    f"ANEURALNETWORKS_{code.name}"
    for code in (
        ResultCode.OUT_OF_MEMORY,
        ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
        ResultCode.RESOURCE_EXHAUSTED_PERSISTENT,
    )
}
"""Result codes with which a device may decline a model for its size."""


class Declined(Exception):
    """Nodes cannot be in a cluster after all; an empty `names` means all nodes of the cluster.

    too_large  True if the device lacked memory to compile the cluster
    """

    def __init__(
        self, names: Iterable[str], reason: Reason, detail: str, too_large: bool = False
    ) -> None:
        super().__init__(detail)
        self.too_large = too_large
        self.names = frozenset(names)
        self.reason = reason
        self.detail = detail
