"""Host-side conversion of a cluster's inputs and outputs: permute, reshape and cast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.expressions import Symbols
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.open_dimensions import SizeInput
from ep_nnapi.nnapi.runtime import Compilation, RunOptions
from ep_nnapi.nnapi.sizes import bound, identical

_SIGN = np.uint8(0x80)
Allocate: TypeAlias = Callable[[int, tuple[int, ...]], Array]
"""`allocate(i, shape)` returns a writable array for ONNX output `i`."""
Stop: TypeAlias = Callable[[], None]
"""Called between operations; an exception that it raises ends the run."""


class OtherInput(ModelError):
    """An input tensor of a cluster is none that it was compiled for; `kind` says of all of them."""

    kind = ""


class OtherSizes(OtherInput):
    """An input tensor of a cluster has another shape than the model declares."""

    kind = "inputs of other sizes than the model declares"


class OtherNumbers(OtherInput):
    """An INT64 input of a cluster has numbers for which its arithmetic may exceed INT32."""

    kind = "inputs with numbers for which arithmetic may exceed INT32"


def within(numbers: Array, most: int) -> bool:
    """Returns True if no number is further from 0; without `abs`, which leaves -2**63 negative."""
    return bool(((numbers >= -most) & (numbers <= most)).all())


@immutable
class Crossing:
    """One input or output of a cluster, as ONNX tensor and as operand of the NNAPI model.

    operand      position among the NNAPI model's inputs or outputs
    shape        ONNX shape
    perm         layout of the operand: its axis i is ONNX axis `perm[i]`; None: same layout
    nnapi_shape  shape of the operand (`value.held`)
    nnapi_dtype  element type of the operand
    limit        of the absolute values of an INT64 tensor; 0: any
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    operand: int
    perm: tuple[int, ...] | None
    nnapi_shape: tuple[int, ...]
    nnapi_dtype: np.dtype[np.generic]
    limit: int = 0

    def with_sizes(self, symbols: Symbols) -> Crossing:
        """Returns the crossing with numbers for its sizes."""
        shape, inside = (bound(sizes, symbols) for sizes in (self.shape, self.nnapi_shape))
        return replace(self, shape=shape, nnapi_shape=inside)

    @property
    def plain(self) -> bool:
        """True if the operand has the same bytes as the ONNX tensor."""
        return self.perm is None and self.dtype.numpy == self.nnapi_dtype

    @property
    def narrowed(self) -> bool:
        """True if the operand has the numbers of an INT64 tensor as INT32, in the same layout."""
        narrows = self.dtype is DType.INT64 and self.nnapi_dtype == np.int32
        return narrows and self.perm is None

    @property
    def flat(self) -> bool:
        """True if the operand has one axis, and the ONNX tensor none or several."""
        return len(self.shape) != 1 and identical(self.nnapi_shape, (prod(self.shape),))

    @property
    def _signs_change(self) -> bool:
        """True if an int8 tensor is a uint8 operand: numbers and zero point are offset by 128."""
        return self.dtype is DType.INT8 and self.nnapi_dtype == np.uint8

    def enter(self, array: Array) -> Array:
        """Returns an ONNX tensor converted for the operand; without a copy if `plain`.

        Raises OtherSizes if its shape differs from the shape that the model declares, OtherNumbers
        if one of its elements is beyond `limit`.
        """
        self.check_shape(array)
        if self.limit and not within(array, self.limit):
            raise OtherNumbers(
                f"{self.name} has numbers beyond {self.limit}; arithmetic on them may exceed INT32"
            )
        if self._signs_change:
            array = array.view(np.uint8) ^ _SIGN
        if self.perm is not None:
            array = array.transpose(self.perm)
        return np.ascontiguousarray(array, self.nnapi_dtype).reshape(self.nnapi_shape)

    def check_shape(self, array: Array) -> None:
        """Raises OtherSizes if a tensor's shape differs from the shape that the model declares."""
        if array.shape != self.shape:
            raise OtherSizes(
                f"{self.name} has sizes {list(array.shape)}, where the model declares "
                f"{list(self.shape)}; declare them right, or not at all"
            )

    def leave(self, array: Array, out: Array) -> None:
        """Converts the operand's contents and writes them into the ONNX tensor `out`."""
        if self._signs_change:
            array, out = array ^ _SIGN, out.view(np.uint8)
        if self.perm is None:
            np.copyto(out, array.reshape(self.shape), casting="unsafe")
        else:
            np.copyto(out.transpose(self.perm), array, casting="unsafe")


@frozen
class Border:
    """The inputs and outputs of one cluster's NNAPI model.

    An ONNX input may occur twice (in two layouts) or not at all; each ONNX output occurs once.

    sizes  inputs of the model after these, which are computed from the sizes of a run
    """

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    sizes: tuple[SizeInput, ...] = ()

    def with_sizes(self, symbols: Symbols) -> Border:
        """Returns the border with numbers for its sizes."""
        ins, outs = (tuple(c.with_sizes(symbols) for c in e) for e in (self.inputs, self.outputs))
        return Border(ins, outs, tuple(s.bind(symbols) for s in self.sizes))

    def bind(self, inputs: Sequence[str], outputs: Sequence[str]) -> BoundBorder:
        """Returns the border bound to ONNX inputs and outputs with these names in this order."""
        ins = {name: i for i, name in enumerate(inputs)}
        outs = {c.name: c for c in self.outputs}
        return BoundBorder(
            tuple((ins[c.name], c) for c in sorted(self.inputs, key=lambda c: c.operand)),
            tuple(outs[n] for n in outputs),
            tuple(s.array for s in self.sizes),
        )


@frozen
class Place:
    """Position of an ONNX tensor, and its shape; an INT64 tensor that is INT32 is `narrowed`.

    flat      True if its operand has one axis in place of its own
    contents  the bytes that it must have; None: any
    most      of the absolute values of an INT64 tensor; 0: any
    """

    position: int
    shape: tuple[int, ...]
    narrowed: bool = False
    flat: bool = False
    contents: bytes | None = None
    most: int = 0


@frozen
class Unconverted:
    """A border without conversions other than between INT64 and INT32, and to tensors of one axis.

    It has the ONNX tensor of each input and output of the model.
    """

    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]


@dataclass(frozen=True)
class BoundBorder:
    """A border bound to positions of ONNX tensors.

    inputs   for each model input the position of its ONNX tensor, and its crossing
    outputs  the crossings in the order of the ONNX outputs
    sizes    the inputs of the model after these
    """

    inputs: tuple[tuple[int, Crossing], ...]
    outputs: tuple[Crossing, ...]
    sizes: tuple[Array, ...] = ()

    @cached_property
    def _unconverted(self) -> tuple[tuple[int, tuple[int, ...] | None, Crossing], ...]:
        """The inputs, with their shape if a tensor of that shape is fed as it is."""
        return tuple(
            (i, c.shape if c.plain and c.shape == c.nnapi_shape else None, c)
            for i, c in self.inputs
        )

    @cached_property
    def unconverted(self) -> Unconverted | None:
        """The tensors by operand; None where one is not one operand of its shape and bytes.

        INT64 tensors may be INT32 operands, and tensors of any rank operands of one axis.
        """
        for crossings in ([crossing for _, crossing in self.inputs], self.outputs):
            operands = sorted(c.operand for c in crossings)
            alike = all(c.plain or c.narrowed for c in crossings)
            shaped = all(c.flat or identical(c.shape, c.nnapi_shape) for c in crossings)
            if not alike or not shaped or operands != list(range(len(operands))):
                return None
        leaving = sorted(enumerate(self.outputs), key=lambda output: output[1].operand)
        return Unconverted(
            tuple(Place(i, c.shape, c.narrowed, c.flat, most=c.limit) for i, c in self.inputs),
            tuple(Place(position, c.shape, c.narrowed, c.flat) for position, c in leaving),
        )

    @cached_property
    def _output_count(self) -> int:
        """The number of the model's outputs."""
        return 1 + max(c.operand for c in self.outputs)

    @cached_property
    def _direct(self) -> tuple[bool, ...]:
        """For each output, True if the runtime writes it: the first one of each operand."""
        operands = [c.operand for c in self.outputs]
        return tuple(c.plain and operands.index(c.operand) == n for n, c in enumerate(self.outputs))

    def run(
        self,
        compilation: Compilation,
        arrays: Sequence[Array],
        allocate: Allocate,
        options: RunOptions,
    ) -> None:
        """Runs `compilation` on ONNX tensors and writes the results into arrays of `allocate`.

        The runtime writes a `plain` output directly into its array, without a copy.
        """
        fed = [
            arrays[i] if shape == arrays[i].shape else crossing.enter(arrays[i])
            for i, shape, crossing in self._unconverted
        ]
        fed.extend(self.sizes)
        buffers = [allocate(i, c.shape) for i, c in enumerate(self.outputs)]
        given: list[Array | None] = [None] * self._output_count
        for crossing, out, direct in zip(self.outputs, buffers, self._direct, strict=True):
            if direct:
                given[crossing.operand] = out.reshape(crossing.nnapi_shape)
        results = compilation.run(fed, given, options)
        for crossing, out, direct in zip(self.outputs, buffers, self._direct, strict=True):
            result = results[crossing.operand]
            if not (direct and result is given[crossing.operand]):
                crossing.leave(result, out)
