"""Conversion of results to standard JSON, which has neither Infinity nor NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, isnan


def strict(data: object) -> object:
    """Returns the data with null for numbers that are not finite, explained by `KEY_reason`."""
    if isinstance(data, Mapping):
        found = {key: strict(value) for key, value in data.items()}
        reasons = {f"{key}_reason": _reason(value) for key, value in data.items()}
        return found | {key: reason for key, reason in reasons.items() if reason is not None}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [strict(value) for value in data]
    return None if _reason(data) is not None else data


def _reason(value: object) -> str | None:
    if not isinstance(value, float) or isfinite(value):
        return None
    return "not a number" if isnan(value) else "infinite"
