"""Progress logging for the planning of large graphs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeAlias

logger = logging.getLogger(__name__)
Clock: TypeAlias = Callable[[], float]
"""Function that returns seconds since a fixed point in time."""

LOG_INTERVAL = 3.0
"""Minimum seconds between log lines, and before the first."""
WARN_AFTER = 10.0
"""Seconds until a warning, for users who do not see the INFO lines."""


class Progress:
    """Logs the progress of planning: a line every few seconds at INFO, and one warning."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._began = self._logged = clock()
        self._warned = False

    def __call__(self, what: str, done: int, of: int) -> None:
        """Logs that `done` of `of` items are `what`, at most once every `LOG_INTERVAL` seconds.

        Warns once, after `WARN_AFTER` seconds.
        """
        now = self._clock()
        if now - self._logged >= LOG_INTERVAL:
            self._logged = now
            logger.info("planning: %d of %d %s", done, of, what)
        if now - self._began >= WARN_AFTER and not self._warned:
            self._warned = True
            logger.warning(
                "planning has taken %.0f s so far: %d of %d %s; Ctrl-C ends it",
                now - self._began,
                done,
                of,
                what,
            )
