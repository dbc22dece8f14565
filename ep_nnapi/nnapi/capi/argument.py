"""Inputs and outputs of an execution: where the data is, dimensions.

Source: NDK ANeuralNetworksExecution_setInput and its siblings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.capi.c_arguments import AnyOperand, bytes_of
from ep_nnapi.nnapi.capi.memory import DeviceMemory, Dimensions
from ep_nnapi.nnapi.capi.refusal import Refused, bad_data, op_failed
from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.validate import MAX_BYTES

_BOOLS = (OperandCode.BOOL, OperandCode.TENSOR_BOOL8)

Storage: TypeAlias = "Array | DeviceMemory | None"
"""Raw bytes, device memory, or None for an omitted argument."""


@dataclass(slots=True)
class Argument:
    """An input or output that has been set on an execution.

    dimensions   as set; each run updates those of an output
    sufficient   False if the buffer was too small for the last run's output
    target       the array of an input, or that a run writes an output into, if the dimensions are
                 known
    """

    operand: Operand
    storage: Storage
    initial: Dimensions
    dimensions: Dimensions = field(init=False)
    sufficient: bool = True
    target: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.dimensions = self.initial
        if isinstance(self.storage, np.ndarray) and self.known:
            self.target = self.storage.view(self.operand.type.numpy).reshape(self.initial)

    @property
    def known(self) -> bool:
        """True if all dimensions were known when the argument was set."""
        return _is_fully_known(self.operand, self.initial)

    def value(self) -> Array | None:
        """Returns an input's array; zero-copy where the client's memory can be used directly."""
        storage = self.storage
        if isinstance(storage, DeviceMemory):
            return storage.read(self.dimensions)
        if storage is not None and self.operand.type in _BOOLS:
            # C's true may be any nonzero byte, numpy's is 1
            return np.not_equal(storage, 0).reshape(self.dimensions)
        return self.target

    def reset(self) -> None:
        """Discards the dimensions and the size check of an earlier run."""
        self.dimensions, self.sufficient = self.initial, True

    def require_sufficient(self) -> None:
        """Raises Refused(OUTPUT_INSUFFICIENT_SIZE) if the last run's output did not fit."""
        if not self.sufficient:
            raise Refused(ResultCode.OUTPUT_INSUFFICIENT_SIZE, "the output did not fit")

    def store(self, result: Array, target: Array | None) -> None:
        """Stores a run's output; raises Refused(OP_FAILED) if its shape contradicts the one set."""
        if self.initial and not _specifies(result.shape, self.initial):
            raise op_failed(f"an output of {list(result.shape)}, {list(self.initial)} was set")
        if result.nbytes > MAX_BYTES:
            raise op_failed(f"an output of {result.nbytes} bytes")
        self.dimensions, storage = result.shape, self.storage
        if isinstance(storage, DeviceMemory):
            storage.value = result.copy()
        elif storage is not None and result is not target:
            self.sufficient = result.nbytes <= storage.size
            if self.sufficient:
                storage[: result.nbytes] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)


def stored(operand: Operand, dimensions: Dimensions, raw: Storage, padded: bool) -> Argument:
    """Returns an argument; raises Refused(BAD_DATA) for a wrong length of the client's memory.

    padded   True if the buffer may be longer than needed
    """
    if raw is None or isinstance(raw, DeviceMemory):
        return Argument(operand, raw, dimensions)
    needed = bytes_of(operand, dimensions) if _is_fully_known(operand, dimensions) else 0
    if raw.size == 0 or needed > raw.size or (needed and raw.size > needed and not padded):
        what = f"{operand.type.name} {list(dimensions)}"
        raise bad_data(f"{what} takes {needed} bytes, not {raw.size}")
    return Argument(operand, raw[: needed or raw.size], dimensions)


def merged_dimensions(operand: Operand, given: AnyOperand | None, partial: bool) -> Dimensions:
    """Returns the dimensions of model and execution merged; () for a scalar.

    partial   True if dimensions may stay unknown

    Raises Refused(BAD_DATA) if they contradict, or if dimensions stay unknown and must not.
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
    """True if `dimensions` agree with every known dimension of `less`, whose rank is known."""
    return len(dimensions) == len(less) and all(
        known in (0, now) for now, known in zip(dimensions, less, strict=True)
    )


def _is_fully_known(operand: Operand, dimensions: Dimensions) -> bool:
    return not operand.type.tensor or (bool(dimensions) and 0 not in dimensions)
