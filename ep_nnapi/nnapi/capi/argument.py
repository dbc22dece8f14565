"""Inputs and outputs of an execution: where their numbers are, and of which dimensions.

Source: NDK ANeuralNetworksExecution_setInput and its siblings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.capi.memory import DeviceMemory, Dimensions
from ep_nnapi.nnapi.capi.operand import AnyOperand, bytes_of
from ep_nnapi.nnapi.capi.refusal import bad_data, op_failed
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.operand import MAX_BYTES

_BOOLS = (OperandCode.BOOL, OperandCode.TENSOR_BOOL8)

Place: TypeAlias = "Array | DeviceMemory | None"
"""Raw bytes, a device's memory, or None for what is left out."""


@dataclass(slots=True)
class Argument:
    """One input or output that has been set.

    dimensions   as set; those of an output are settled by each run
    sufficient   whether the last run's output fitted
    """

    operand: Operand
    place: Place
    initial: Dimensions
    dimensions: Dimensions = field(init=False)
    sufficient: bool = True
    _numbers: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.dimensions = self.initial
        if isinstance(self.place, np.ndarray) and self.known:
            self._numbers = self.place.view(self.operand.type.numpy).reshape(self.initial)

    @property
    def known(self) -> bool:
        """Whether the dimensions were all known when it was set."""
        return _known(self.operand, self.initial)

    def value(self) -> Array | None:
        """An input's numbers, without a copy where C's memory can be read as it is."""
        place = self.place
        if isinstance(place, DeviceMemory):
            return place.read(self.dimensions)
        if place is not None and self.operand.type in _BOOLS:
            # C's true may be any byte but 0, numpy's is 1
            return np.not_equal(place, 0).reshape(self.dimensions)
        return self._numbers

    def target(self) -> Array | None:
        """The array that a run writes an output to; None where its dimensions are not known."""
        return self._numbers

    def reset(self) -> None:
        """Forgets what an earlier run found out."""
        self.dimensions, self.sufficient = self.initial, True

    def deliver(self, result: Array, target: Array | None) -> None:
        """Takes a run's output; raises Refused(OP_FAILED) for other dimensions than set."""
        if self.initial and not _specifies(result.shape, self.initial):
            raise op_failed(f"an output of {list(result.shape)}, {list(self.initial)} was set")
        if result.nbytes > MAX_BYTES:
            raise op_failed(f"an output of {result.nbytes} bytes")
        self.dimensions, place = result.shape, self.place
        if isinstance(place, DeviceMemory):
            place.value = result.copy()
        elif place is not None and result is not target:
            self._copy(place, result)

    def _copy(self, place: Array, result: Array) -> None:
        self.sufficient = result.nbytes <= place.size
        if self.sufficient:
            place[: result.nbytes] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)


def from_bytes(operand: Operand, dimensions: Dimensions, raw: Array, padded: bool) -> Argument:
    """An input or output in C's memory; raises Refused(BAD_DATA) for a wrong length.

    padded   whether more bytes than needed may be there
    """
    needed = bytes_of(operand, dimensions) if _known(operand, dimensions) else 0
    if raw.size == 0 or needed > raw.size or (needed and raw.size > needed and not padded):
        what = f"{operand.type.name} {list(dimensions)}"
        raise bad_data(f"{what} takes {needed} bytes, not {raw.size}")
    return Argument(operand, raw[: needed or raw.size], dimensions)


def settled(operand: Operand, given: AnyOperand | None, partial: bool) -> Dimensions:
    """The dimensions that model and execution know together; a scalar has ().

    partial   whether dimensions may stay unknown

    Raises Refused(BAD_DATA) for a contradiction, or unknown dimensions that may not stay so.
    """
    described = operand if given is None else given
    if not partial and not described.known:
        raise bad_data(f"dimensions {list(described.dimensions)} are not all known")
    if given is None or not operand.type.tensor:
        return operand.dimensions
    if operand.dimensions and not _specifies(given.dimensions, operand.dimensions):
        now, before = list(given.dimensions), list(operand.dimensions)
        raise bad_data(f"dimensions {now} do not specify the model's {before}")
    return given.dimensions


def _specifies(dimensions: Dimensions, less: Dimensions) -> bool:
    """Whether `dimensions` keep all that `less`, of known rank, knows."""
    return len(dimensions) == len(less) and all(
        known in (0, now) for now, known in zip(dimensions, less, strict=True)
    )


def _known(operand: Operand, dimensions: Dimensions) -> bool:
    return not operand.type.tensor or (bool(dimensions) and 0 not in dimensions)
