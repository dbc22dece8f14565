"""Kinds of model outputs, and the tolerance for comparing outputs of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

import numpy as np

from ep_nnapi.nnapi.array import Array


class Kind(StrEnum):
    """Kind of an output, which determines its tolerance."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    QUANTIZED = "quantized"
    INTEGER = "integer"
    BOXES = "boxes"
    RANDOM = "random"


TOLERANCES: Mapping[Kind, float] = {
    Kind.FLOAT32: 1e-4,  # float32 accumulation in another order, over up to 50 layers
    Kind.FLOAT16: 2.0**-7,  # as many roundings as float32, eight of 2 ** -10
    Kind.QUANTIZED: 0.05,  # outputs that are real numbers again, of layers that round to 1/255
    Kind.INTEGER: 0.0,
    Kind.BOXES: 1e-3,  # corners: an anchor plus a float32 network output
    Kind.RANDOM: inf,  # each session draws others
}
"""Largest allowed difference of outputs by kind, relative to their spread."""

QUANTA = 2.0
"""The same in quanta, for quantized outputs: a tie of theirs, and of their operands, either way."""


_QUANTIZED_BYTES = 2
"""Bytes of the largest quantized type."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a model that determine the kinds and tolerances of its outputs.

    quantized   True if it has quantized layers
    half        True if it computes in float16
    steps       quantum (scale) of outputs that are dequantized last, by name
    boxes       outputs whose rows are detections, with an order that depends on near ties
    random      outputs that depend on random numbers without a seed, which cannot be compared
    """

    quantized: bool = False
    half: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    boxes: frozenset[str] = frozenset()
    random: frozenset[str] = frozenset()

    def kind(self, name: str, array: Array) -> Kind:
        """Returns the kind of an output."""
        if name in self.random:
            return Kind.RANDOM
        if name in self.boxes:
            return Kind.BOXES
        if self.quantized:
            return Kind.QUANTIZED
        if array.dtype.kind != "f":
            return Kind.INTEGER
        return Kind.FLOAT16 if self.half or array.dtype == np.float16 else Kind.FLOAT32

    def quantum(self, name: str, array: Array) -> float | None:
        """Returns the size of a quantized output's steps; None for real numbers and indices."""
        if self.kind(name, array) is not Kind.QUANTIZED:
            return None
        if array.dtype.kind == "f":
            return self.steps.get(name) or None  # a scale of 0 is no unit
        return 1.0 if array.dtype.kind in "iu" and array.itemsize <= _QUANTIZED_BYTES else None
