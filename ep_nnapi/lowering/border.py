"""What the host does at a cluster's edge, once per tensor: permute, reshape, cast, retype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ep_nnapi.errors import ModelError
from ep_nnapi.graph.value import Array, DType
from ep_nnapi.nnapi.runtime import Compilation, RunOptions

_SIGN = np.uint8(0x80)
Allocate: TypeAlias = Callable[[int, tuple[int, ...]], Array]
"""`allocate(i, shape)`: a writable array for ONNX output `i`."""


class OtherSizes(ModelError):
    """A tensor that reaches a cluster has other sizes than the model declares."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One tensor at the edge, as ONNX has it and as the NNAPI model has it.

    operand      position among the model's inputs or outputs
    shape        ONNX's sizes
    perm         how the model lays it out: its dimension i is ONNX's `perm[i]`; None: the same
    nnapi_shape  the sizes with which the model holds it (`value.held`)
    nnapi_dtype  the model's element type
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    operand: int
    perm: tuple[int, ...] | None
    nnapi_shape: tuple[int, ...]
    nnapi_dtype: np.dtype[np.generic]

    @property
    def plain(self) -> bool:
        """Whether the model takes the tensor's bytes as they are."""
        return self.perm is None and self.dtype.numpy == self.nnapi_dtype

    @property
    def _signs_change(self) -> bool:
        """Whether signed quantized numbers are unsigned ones inside, zero point and all."""
        return self.dtype is DType.INT8 and self.nnapi_dtype == np.uint8

    def enter(self, array: Array) -> Array:
        """An ONNX tensor as the model wants it; no copy when `plain`.

        Raises OtherSizes for one of other sizes than the model declares.
        """
        if array.shape != self.shape:
            raise OtherSizes(
                f"{self.name} has sizes {list(array.shape)}, where the model declares "
                f"{list(self.shape)}; declare them right, or not at all"
            )
        if self._signs_change:
            array = array.view(np.uint8) ^ _SIGN
        if self.perm is not None:
            array = array.transpose(self.perm)
        return np.ascontiguousarray(array, self.nnapi_dtype).reshape(self.nnapi_shape)

    def leave(self, array: Array, out: Array) -> None:
        """The model's tensor written into `out`, an ONNX tensor."""
        if self._signs_change:
            array, out = array ^ _SIGN, out.view(np.uint8)
        if self.perm is None:
            np.copyto(out, array.reshape(self.shape), casting="unsafe")
        else:
            np.copyto(out.transpose(self.perm), array, casting="unsafe")


@dataclass(frozen=True, slots=True)
class Border:
    """The crossings of one cluster, each with the position of its tensor among ORT's.

    An input may enter twice (in two layouts) or not at all; each output leaves once.
    """

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]

    def bind(self, inputs: Sequence[str], outputs: Sequence[str]) -> BoundBorder:
        """The border for tensors that come in this order."""
        ins = {name: i for i, name in enumerate(inputs)}
        outs = {c.name: c for c in self.outputs}
        return BoundBorder(
            tuple((ins[c.name], c) for c in sorted(self.inputs, key=lambda c: c.operand)),
            tuple(outs[n] for n in outputs),
        )


@dataclass(frozen=True, slots=True)
class BoundBorder:
    """A border whose tensors have positions: model inputs with their tensor, outputs in order."""

    inputs: tuple[tuple[int, Crossing], ...]
    outputs: tuple[Crossing, ...]

    def run(
        self,
        compilation: Compilation,
        arrays: Sequence[Array],
        allocate: Allocate,
        options: RunOptions,
    ) -> None:
        """Runs `compilation` on ONNX tensors; results go where `allocate` says.

        An output that crosses as it is is written by the runtime itself, without a copy.
        """
        fed = [crossing.enter(arrays[i]) for i, crossing in self.inputs]
        buffers = [allocate(i, c.shape) for i, c in enumerate(self.outputs)]
        direct: list[Array | None] = [None] * (1 + max(c.operand for c in self.outputs))
        for crossing, out in zip(self.outputs, buffers, strict=True):
            if crossing.plain and direct[crossing.operand] is None:
                direct[crossing.operand] = out.reshape(crossing.nnapi_shape)
        results = compilation.run(fed, direct, options)
        for crossing, out in zip(self.outputs, buffers, strict=True):
            if not (crossing.plain and np.shares_memory(results[crossing.operand], out)):
                crossing.leave(results[crossing.operand], out)
