"""Containers with one fact changed, and their checksum made right again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ep_nnapi.epcontext.container import split, with_checksum
from ep_nnapi.epcontext.layout import HEADER, TABLES

INTEGERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 65, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
FLOATS = (0.0, -1.0, 1e-300, 1e300, float("inf"), float("nan"))


def changed(data: bytes, table: str, row: int, change: Callable[[Any], None]) -> bytes:
    """The container after `change` of one row of a table (or of "header"), with a new checksum."""
    header, program, _ = split(data)
    writable = bytearray(program)
    if table == "header":
        rows = np.frombuffer(writable, HEADER.dtype, 1)
    else:
        dtype = next(t.dtype for t in TABLES if t.name == table)
        first, count = header[table].tolist()
        rows = np.frombuffer(writable, dtype, count, first)
    change(rows[row : row + 1])
    return with_checksum(bytes(writable)) + data[len(program) :]


def forged(data: bytes, rng: random.Random) -> bytes:
    """The container with one number or text of any table replaced, and a new checksum."""
    header, _, _ = split(data)
    filled = [t.name for t in TABLES if header[t.name]["count"]]
    table = rng.choice(["header", *filled])
    row = 0 if table == "header" else rng.randrange(int(header[table]["count"]))
    return changed(data, table, row, lambda rows: _replace(rows, rng))


def _replace(rows: Any, rng: random.Random) -> None:
    while rows.dtype.names:
        names = [n for n in rows.dtype.names if n not in ("magic", "sha256")]
        rows = rows[rng.choice(names)]
    rows = rows.reshape(-1)
    rows = rows[rng.randrange(rows.size) :][:1]
    if rows.dtype.kind == "f":
        rows[0] = rng.choice(FLOATS)
        return
    limits = np.iinfo(rows.dtype)
    near = int(rows[0]) + rng.choice((-1, 1, 4, 8, 64))
    value = rng.choice((near, rng.choice(INTEGERS), limits.max, limits.min))
    rows[0] = min(max(value, int(limits.min)), int(limits.max))
