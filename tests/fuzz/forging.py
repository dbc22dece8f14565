"""Headers of contexts with a part of them changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any


def parts(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Paths of all parts of JSON data."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list) else ())
    )
    for key, inner in items:
        yield from parts(inner, (*path, key))


ODD = (
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**63,
    2**70,
    1.5,
    float("nan"),
    "",
    "x",
    "<f4",
    "O",
    [],
    [[]],
    {},
    [0] * 9,
)


def forged(header: dict[str, object], rng: random.Random) -> dict[str, object]:
    """Another header: a part of it replaced, taken away or doubled."""
    changed = copy.deepcopy(header)
    *above, last = rng.choice([p for p in parts(changed) if p])
    home: Any = changed
    for key in above:
        home = home[key]
    if rng.random() < 0.2:
        del home[last]
    elif rng.random() < 0.2 and isinstance(home, list):
        home.append(home[last])
    else:
        home[last] = rng.choice(ODD)
    return changed
