"""Sentences about a name that is none of the known ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 12  # names that a sentence lists


def known(given: str, names: Iterable[str]) -> str:
    """The names that there are, and the one that `given` may be a misspelling of."""
    listed = list(dict.fromkeys(names))
    text = ", ".join(listed[:_MOST]) or "none"
    if len(listed) > _MOST:
        text += f" and {len(listed) - _MOST} more"
    return text + suggestion(given, listed)


def suggestion(given: str, names: Iterable[str]) -> str:
    """`; did you mean NAME?` for the name nearest to `given`; nothing where none is near."""
    near = get_close_matches(given, list(dict.fromkeys(names)), n=1)
    return f"; did you mean {near[0]}?" if near else ""
