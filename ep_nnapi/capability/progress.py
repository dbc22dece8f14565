"""How far the planning of a graph is, for who waits for a large one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeAlias

logger = logging.getLogger(__name__)
Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment."""

EVERY = 3.0
"""Seconds from one line to the next, and before the first."""
LONG = 10.0
"""Seconds after which a warning tells a user who sees no other lines what is going on."""


class Progress:
    """Logs how far a planning is: a line every few seconds at INFO, and one warning."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._began = self._logged = clock()
        self._warned = False

    def __call__(self, what: str, done: int, of: int) -> None:
        """Says that `done` of so many are `what`, unless something was said just before."""
        now = self._clock()
        if now - self._logged >= EVERY:
            self._logged = now
            logger.info("planning: %d of %d %s", done, of, what)
        if now - self._began >= LONG and not self._warned:
            self._warned = True
            logger.warning(
                "planning has taken %.0f s so far: %d of %d %s; Ctrl-C ends it",
                now - self._began,
                done,
                of,
                what,
            )
