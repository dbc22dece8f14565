"""Pauses of Python's collection of reference cycles, where nearly all that is created stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the collection of reference cycles, unless the process has it off.

    Of planning a graph and of importing the package nearly all objects stay, and each collection
    would visit them again, and those of onnx and networkx: a tenth of the time of a large graph, a
    fifth of the first session's. What is dropped is freed by its reference count. At the end all
    objects are moved to the oldest generation, unvisited, unless the process has frozen some.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()
