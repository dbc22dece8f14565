"""Operations on graph values, built by name from spec rows before operand indexes exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ep_nnapi.graph.value import (
    MAX_RANK,
    Constant,
    DType,
    Quantization,
    Value,
    operand_shape,
)
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, FuseCode, OperandCode
from ep_nnapi.nnapi.errors import Reject, SpecError
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import AttributeValue
from ep_nnapi.nnapi.signature import Match, OperationSpec, Param, Params
from ep_nnapi.nnapi.sizes import Size

NHWC = (0, 2, 3, 1)
"""Permutation from an NCHW shape to NHWC: for each physical dimension, its NCHW axis."""


@immutable
class View:
    """A value stored with permuted axes: physical axis i is logical axis `perm[i]`."""

    value: Value
    perm: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in physical order."""
        shape = self.value.shape
        return tuple([shape[i] for i in self.perm])


Scalar: TypeAlias = bool | int | float
Arg: TypeAlias = Value | View | Scalar | None
Given: TypeAlias = Arg | Constant | Sequence[Value | View]
_DEFAULTS: Mapping[str, Scalar] = {"activation": FuseCode.NONE}
"""Values of parameters that are not given."""
_SINGLE = (Value, View, bool, int, float)
"""Types of arguments that are one operand as they are."""


def value_of(arg: Arg) -> Value | None:
    """The value of a tensor operand in any layout; None for scalars and omitted ones."""
    if isinstance(arg, Value):
        return arg
    return arg.value if isinstance(arg, View) else None


def nhwc(value: Value) -> View:
    """A view of an NCHW value in NHWC, NNAPI's default layout."""
    return View(value, NHWC)


_CODES = {
    DType.FLOAT: OperandCode.TENSOR_FLOAT32,
    DType.FLOAT16: OperandCode.TENSOR_FLOAT16,
    DType.INT32: OperandCode.TENSOR_INT32,
    DType.BOOL: OperandCode.TENSOR_BOOL8,
}
_QUANTIZED = {
    DType.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    DType.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    DType.UINT16: OperandCode.TENSOR_QUANT16_ASYMM,
    DType.INT16: OperandCode.TENSOR_QUANT16_SYMM,
}


def operand_code(value: Value) -> OperandCode | None:
    """The NNAPI tensor type for the type and quantization of `value`; None if there is none."""
    q = value.quantization
    if q is None:
        return _CODES.get(value.dtype)
    if not q.per_tensor:
        per_channel = value.dtype is DType.INT8 and not any(q.zero_point)
        return OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL if per_channel else None
    if value.dtype is DType.INT32:  # a bias: NNAPI stores it as TENSOR_INT32 with a scale
        return OperandCode.TENSOR_INT32
    return _QUANTIZED.get(value.dtype)


@dataclass(slots=True)  # not frozen: thousands are created, which would take three times as long
class _TypedArg:
    """Adapter from a call's argument to the `Typed` interface of signatures."""

    arg: Arg

    @property
    def kind(self) -> object:
        value = value_of(self.arg)
        if value is not None:
            return operand_code(value)
        return int if isinstance(self.arg, Size) else type(self.arg)

    @property
    def rank(self) -> int | None:
        if isinstance(self.arg, Value):
            rank = len(self.arg.shape)
            return rank if 0 < rank <= MAX_RANK else 1
        return len(self.arg.perm) if isinstance(self.arg, View) else 0

    @property
    def omitted(self) -> bool:
        return self.arg is None

    @property
    def dimensions(self) -> tuple[int, ...]:
        if isinstance(self.arg, View):
            return self.arg.shape
        return operand_shape(self.arg.shape) if isinstance(self.arg, Value) else ()

    @property
    def _quantization(self) -> Quantization | None:
        value = value_of(self.arg)
        return value.quantization if value is not None else None

    @property
    def scale(self) -> float:
        q = self._quantization
        return q.scale[0] if q is not None and q.per_tensor else 0.0

    @property
    def zero_point(self) -> int:
        q = self._quantization
        return q.zero_point[0] if q is not None and q.per_tensor else 0

    @property
    def channel_dim(self) -> int | None:
        q = self._quantization
        if q is None or q.axis is None:
            return None
        return self.arg.perm.index(q.axis) if isinstance(self.arg, View) else q.axis

    def fits(self, code: OperandCode) -> bool:
        arg = self.arg
        if arg is None:
            return True
        if isinstance(arg, bool):
            return code is OperandCode.BOOL
        if isinstance(arg, int):
            return code in (OperandCode.INT32, OperandCode.UINT32)
        if isinstance(arg, float):
            return code in (OperandCode.FLOAT32, OperandCode.FLOAT16)
        return operand_code(arg.value if isinstance(arg, View) else arg) is code

    def describe(self) -> str:
        value = value_of(self.arg)
        if value is not None:
            code = operand_code(value)
            return f"{value.name} is {code.name if code else value.dtype.name}"
        return f"{self.arg} is a {type(self.arg).__name__}"


@immutable
class Whole:
    """The operator that several calls compute together; `model.Composite` with values.

    keeps   True if its constants are kept where the calls have only others made from them
    """

    name: str
    since: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, AttributeValue] = field(hash=False)
    keeps: bool = False


@immutable
class Call:
    """One operation, operands in NNAPI's order.

    origin   names of the ONNX nodes it came from
    whole    the operator that it computes together with other calls
    """

    spec: OperationSpec
    params: Params
    inputs: tuple[Arg, ...]
    outputs: tuple[Value | View, ...]
    origin: tuple[str, ...] = field(default=())
    whole: Whole | None = field(default=None, compare=False)
    _matched: list[Match] = field(default_factory=list, init=False, repr=False, compare=False)
    _reads: tuple[Value, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _writes: tuple[Value, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that it reads, without constants."""
        if self._reads is None:  # many passes over the calls ask
            values = [a.value if isinstance(a, View) else a for a in self.inputs]
            found = tuple([v for v in values if isinstance(v, Value) and v.constant is None])
            object.__setattr__(self, "_reads", found)
            return found
        return self._reads

    @property
    def writes(self) -> tuple[Value, ...]:
        """The values that it computes."""
        if self._writes is None:
            found = tuple([o.value if isinstance(o, View) else o for o in self.outputs])
            object.__setattr__(self, "_writes", found)
            return found
        return self._writes

    def match(self, feature_level: int) -> Match:
        """The signature, found once; raises Reject as `OperationSpec.match` does."""
        for found in self._matched:
            if found.level <= feature_level:
                return found
        found = self.spec.match(
            [_TypedArg(a) for a in self.inputs],
            [_TypedArg(o) for o in self.outputs],
            feature_level,
        )
        self._matched.append(found)
        return found

    def require_kernel(self, feature_level: int) -> None:
        """Raise Reject if Android's own kernels do not compute what `match` accepts."""
        if self.spec.kernel_rules:
            operands = [_TypedArg(a) for a in (*self.inputs, *self.outputs)]
            self.spec.require_kernel(self.match(feature_level), operands, feature_level)

    def set_match(self, match: Match) -> None:
        """Set the signature to that of a call with operands of the same types and ranks."""
        self._matched.append(match)

    def is_supported(self, feature_level: int, kernel_level: int = HIGHEST_LEVEL) -> bool:
        """True if the feature level has the operation for these operands, the other the kernel."""
        try:
            self.match(feature_level)
            self.require_kernel(kernel_level)
        except Reject:
            return False
        return True

    def with_origin(self, origin: tuple[str, ...], whole: Whole | None = None) -> Call:
        """The call with other names of ONNX nodes, and as a part of another operator."""
        return Call(self.spec, self.params, self.inputs, self.outputs, origin, whole)

    def with_operands(
        self, inputs: tuple[Arg, ...], outputs: tuple[Value | View, ...], *origin: str
    ) -> Call:
        """The call with other operands of the same types, and more names of ONNX nodes.

        Its signature stays: sizes and quantization are the same too, in the same layouts.
        """
        names = tuple(dict.fromkeys(self.origin + origin)) if origin else self.origin
        call = Call(self.spec, self.params, inputs, outputs, names, self.whole)
        call._matched.extend(self._matched)
        return call

    def named(self) -> Mapping[str, Given]:
        """Operands by parameter name; a tuple for a repeated parameter."""
        found: dict[str, Given] = {}
        repeated: dict[str, list[Value | View]] = {}
        for param, arg in zip(self.params, self.inputs, strict=True):
            if param.many and isinstance(arg, (Value, View)):  # not omitted
                repeated.setdefault(param.name, []).append(arg)
            else:
                found[param.name] = arg
        found.update((name, tuple(args)) for name, args in repeated.items())
        return found


def apply(
    spec: OperationSpec,
    *given: Given,
    out: Value | View | Sequence[Value | View],
    **named: Given,
) -> Call:
    """Apply an operation to operands: the first ones by position, the others by name.

    `activation` defaults to NONE; operands that are None are omitted. Raises SpecError if no
    operand list of the operation has these names, which is a bug in the caller.
    """
    outputs = (out,) if isinstance(out, (Value, View)) else tuple(out)
    for form, places in zip(spec.input_params, spec.input_places, strict=True):
        bound = _bind(form, places, given, named)
        if bound is not None:
            return Call(spec, *bound, outputs)
    names = ", ".join(k for k, v in named.items() if v is not None) or "none by name"
    raise SpecError(
        f"{spec.name} has no signature with {len(given)} operands by position and {names}"
    )


def _bind(
    form: Params, places: Mapping[str, int], given: Sequence[Given], named: Mapping[str, Given]
) -> tuple[Params, tuple[Arg, ...]] | None:
    if len(given) > len(form):
        return None
    if named and not _fits_names(places, len(given), named):
        return None
    rest = [named.get(p.name, _DEFAULTS.get(p.name)) for p in form[len(given) :]]
    params: list[Param] = []
    inputs: list[Arg] = []
    for param, arg in zip(form, (*given, *rest), strict=True):
        # most are; Sequence is slow to check
        if isinstance(arg, _SINGLE) or (arg is None and not param.many):
            params.append(param)
            inputs.append(arg)
            continue
        args = _args(param, arg)
        if param.many == "+" and not args:
            return None
        params += [param] * len(args)
        inputs += args
    end = _end(params, inputs)
    if end is None:
        return None
    return tuple(params[:end]), tuple(inputs[:end])


def _fits_names(places: Mapping[str, int], given: int, named: Mapping[str, Given]) -> bool:
    """True if the operands by name are of the form, and not among the first `given` ones."""
    for name, arg in named.items():
        place = places.get(name)
        if place is None and arg is not None:
            return False
        if place is not None and place < given:
            return False
    return True


def _end(params: Sequence[Param], inputs: Sequence[Arg]) -> int | None:
    """The shortest legal operand count that includes every operand that is not None.

    None if an operand before it is missing that is not optional.
    """
    end = len(inputs)
    while end > 1 and inputs[end - 1] is None:
        end -= 1
    while 0 < end < len(params) and not params[end - 1].last:
        end += 1
    for param, arg in zip(params[:end], inputs, strict=False):
        if arg is None and not param.optional:
            return None
    return end


def _args(param: Param, given: Given) -> Sequence[Arg]:
    if isinstance(given, Constant):
        return (Value(f"constant {param.name}", given.dtype, given.shape, constant=given),)
    if isinstance(given, Sequence):
        if not param.many:
            raise SpecError(f"operand {param.name} takes one value, not {len(given)}")
        return given
    return () if param.many and given is None else (given,)
