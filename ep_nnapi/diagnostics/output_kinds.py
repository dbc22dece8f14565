"""Kinds of outputs, and how near to each other two computations of each kind must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ep_nnapi.graph.value import Array


class Kind(StrEnum):
    """What an output is, as far as it decides how near is near enough."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    QUANTIZED = "quantized"
    INTEGER = "integer"
    BOXES = "boxes"


TOLERANCES: Mapping[Kind, float] = {
    Kind.FLOAT32: 1e-4,  # sums of float32 products in another order, through up to fifty layers
    Kind.FLOAT16: 2.0**-7,  # the same number of roundings as for float32, eight of 2 ** -10
    Kind.QUANTIZED: 0.05,  # a tie may go to either step, 1/255 of a range; layers add them up
    Kind.INTEGER: 0.0,
    Kind.BOXES: 1e-3,  # corners are sums of an anchor and of a float32 that went through a network
}
"""How far outputs of a kind may be apart, relative to their spread."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a model says of its outputs.

    quantized   it has quantized layers
    half        it computes in float16
    steps       the quantum of outputs that are dequantized or quantized last, by name
    boxes       outputs whose rows are detections, in an order that near ties decide
    """

    quantized: bool = False
    half: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    boxes: frozenset[str] = frozenset()

    def kind(self, name: str, array: Array) -> Kind:
        """The kind of an output."""
        if name in self.boxes:
            return Kind.BOXES
        if self.quantized:
            return Kind.QUANTIZED
        if array.dtype.kind != "f":
            return Kind.INTEGER
        return Kind.FLOAT16 if self.half or array.dtype == np.float16 else Kind.FLOAT32
