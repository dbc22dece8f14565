"""The view of an ONNX node that lowerings use: inputs, outputs, attributes, and what lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import count
from math import isfinite
from typing import Any

import numpy as np

from ep_nnapi.graph.graph import Attribute, NodeInputs, present
from ep_nnapi.graph.value import Constant, DType, Value, only_element, require_finite
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.options.target import Target


@immutable
class NodeView(NodeInputs):
    """A graph node and the target that it is lowered for.

    Accessors raise Reject when an input, output or attribute is missing.
    """

    target: Target
    _serial: Iterator[int] = field(default_factory=count, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All inputs; raises Reject(ATTRIBUTE) when one is omitted."""
        return tuple(self.input(i) for i in range(len(self.node.inputs)))

    @property
    def outputs(self) -> tuple[Value, ...]:
        """All outputs up to the last; raises Reject(ATTRIBUTE) when one is omitted."""
        return tuple(self.output(i) for i in range(len(self.node.outputs)))

    def has_output(self, index: int) -> bool:
        """True if output `index` exists, i.e. is not omitted."""
        return index < len(self.node.outputs) and self.node.outputs[index] is not None

    def output(self, index: int = 0) -> Value:
        """Output `index`; raises Reject(ATTRIBUTE) when it is omitted."""
        return present(self.node.outputs, index, "output")

    def constant(self, index: int) -> Constant:
        """The constant at input `index`, not loaded; raises Reject(CONSTANT) if not constant."""
        value = self.input(index)
        if value.constant is None:
            raise Reject(Reason.CONSTANT, f"{value.name} must be constant")
        return value.constant

    def array(self, index: int) -> Array:
        """The data of the small constant at input `index`, loaded (shapes, axes, pads, scales)."""
        return self.constant(index).array

    def integer_at(self, index: int) -> int:
        """The constant integer at input `index`; raises Reject unless it is one finite number."""
        name = self.input(index).name
        number = only_element(self.constant(index), name)
        if isinstance(number, Size):
            return number
        self.require(isfinite(number), Reason.CONSTANT, f"{name} is {number}; it must be finite")
        return int(number)

    def integers_at(self, index: int) -> tuple[int, ...]:
        """The constant integers at input `index`, in order."""
        return self.constant(index).integers

    def reals_at(self, index: int) -> tuple[float, ...]:
        """The constant floats at input `index`, in order."""
        return tuple(float(i) for i in self.array(index).reshape(-1))

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute.

        As for all attributes: raises Reject(ATTRIBUTE) when it is absent and has no default.
        """
        return int(self._attribute(name, default))  # type: ignore[arg-type]

    def real(self, name: str, default: float | None = None) -> float:
        """A float attribute."""
        return float(self._attribute(name, default))  # type: ignore[arg-type]

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute."""
        return str(self._attribute(name, default))

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute of integers; an empty list is as good as none, as in ONNX Runtime."""
        given = self._attribute(name, default) or default or ()
        return tuple(int(i) for i in given)  # type: ignore[union-attr]

    def integers_like(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """An attribute of as many integers as `default` has.

        Raises Reject(ATTRIBUTE) for another number of them.
        """
        found = self.integers(name, default)
        detail = f"{name} has {len(found)} numbers, where {len(default)} are needed"
        self.require(len(found) == len(default), Reason.ATTRIBUTE, detail)
        return found

    def reals(self, name: str, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """An attribute of floats."""
        return tuple(float(i) for i in self._attribute(name, default))  # type: ignore[union-attr]

    def texts(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """An attribute of strings."""
        return tuple(str(i) for i in self._attribute(name, default))  # type: ignore[union-attr]

    def has_attribute(self, name: str) -> bool:
        """True if the node has the attribute."""
        return name in self.node.attributes

    def _attribute(self, name: str, default: Attribute | Sequence[object] | None) -> Attribute:
        found = self.node.attributes.get(name, default)
        if found is None:
            raise Reject(Reason.ATTRIBUTE, f"attribute {name} is missing")
        return found  # type: ignore[return-value]

    def axis(self, default: int | None = None, name: str = "axis") -> int:
        """The `axis` attribute as a non-negative axis of input 0."""
        return self.normalized(self.integer(name, default), self.input(0).rank, name)

    @staticmethod
    def normalized(axis: int, rank: int, name: str = "axis") -> int:
        """`axis` as a non-negative number; raises Reject(ATTRIBUTE) when out of range."""
        if not -rank <= axis < rank:
            raise Reject(Reason.ATTRIBUTE, f"{name} is {axis}, the rank is {rank}")
        return axis % rank

    def temp(
        self, like: Value, shape: Sequence[int] | None = None, dtype: DType | None = None
    ) -> Value:
        """A new intermediate value; `shape` and `dtype` default to those of `like`.

        It has the quantization parameters of `like` unless its type differs.
        """
        dims = tuple(shape) if shape is not None else like.shape
        first = next(o.name for o in self.node.outputs if o is not None)
        name = f"{first}/{next(self._serial)}"
        if dtype is not None and dtype is not like.dtype:
            return Value(name, dtype, dims)
        return Value(name, like.dtype, dims, like.quantization)

    def limits(self, like: Value) -> np.finfo:
        """Limits of the floats that compute `like`: those of float16 if USE_FP16 allows that."""
        half = self.target.relaxed or like.dtype is DType.FLOAT16
        return np.finfo(np.float16 if half else np.float32)

    def scalar(self, number: float, like: Value) -> Constant:
        """A constant of shape [1] and `like`'s element type.

        Raises Reject(QUANTIZATION) if `like` is quantized, Reject(DTYPE) if its integer type cannot
        hold the number, Reject(ATTRIBUTE) if a finite number is infinite in its float type.
        """
        if _is_quantized(like):
            given = (v.name for v in self.node.inputs if v is not None and _is_quantized(v))
            raise Reject(
                Reason.QUANTIZATION,
                f"{next(given, like.name)} is quantized; {self.node.op_type} is computed in floats",
            )
        to = like.dtype.numpy
        if isinstance(number, Size) and to.kind in "iu":
            return Constant.of_sizes((number,), (1,), like.dtype)
        if to.kind in "iu" and not _holds(to, number):
            detail = f"{like.name} is {like.dtype.name}; {self.node.op_type} is computed in floats"
            raise Reject(Reason.DTYPE, detail)
        require_finite(number, to, f"a number in {self.node.op_type}")
        return Constant.of(np.array([number], to))

    def value(self, name: str, constant: Constant) -> Value:
        """A value for a constant that the lowering creates."""
        return Value.of(name, constant)

    def supports(self, call: Call) -> bool:
        """True if the target's feature level and kernels take the operation and its operands."""
        target = self.target
        return call.is_supported(target.feature_level, target.kernel_level)


def _holds(to: np.dtype[np.integer[Any]], number: float) -> bool:
    """True for a whole number that the integer type and NNAPI's INT32 have."""
    ranges = [np.iinfo(t) for t in (to, np.int32)]
    return float(number).is_integer() and all(i.min <= number <= i.max for i in ranges)


def _is_quantized(value: Value) -> bool:
    return value.quantization is not None or value.dtype in (DType.UINT8, DType.INT8)
