"""Values of the options that take one of a few names."""

from __future__ import annotations

from enum import StrEnum


class Fallback(StrEnum):
    """Fallback of a cluster whose device has failed."""

    REFERENCE = "reference"
    CPU = "cpu"
    NONE = "none"


class DynamicShapes(StrEnum):
    """Treatment of symbolic dimensions: compile for each run's sizes, or reject them."""

    SPECIALIZE = "specialize"
    OFF = "off"


class Partitioning(StrEnum):
    """Selection among the capable nodes.

    AUTO leaves, in sessions on the host, whole clusters that do not pay there; else it is MAXIMAL.
    """

    AUTO = "auto"
    MAXIMAL = "maximal"
    WORTH_IT = "worth_it"

    @property
    def whole(self) -> Partitioning:
        """The partition of what is not for a session on the host alone: MAXIMAL for AUTO."""
        return Partitioning.MAXIMAL if self is Partitioning.AUTO else self


class Relaxed(StrEnum):
    """Host computation of float32 under USE_FP16: rounded to float16 (emulate), or not."""

    EMULATE = "emulate"
    PRECISE = "precise"


class Spinning(StrEnum):
    """When threads of host-cpu wait actively for work: during runs, between them too, or never."""

    AUTO = "auto"
    RUNS = "runs"
    NEVER = "never"


class Preference(StrEnum):
    """Execution preference of compilations, by the names of the NDK's PreferenceCode."""

    LOW_POWER = "low_power"
    FAST_SINGLE_ANSWER = "fast_single_answer"
    SUSTAINED_SPEED = "sustained_speed"


class Priority(StrEnum):
    """Priority of compilations among those on a device, by the names of the NDK's PriorityCode."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
