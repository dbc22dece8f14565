"""Check of a lowering's output shapes against NNAPI's shape inference."""

from __future__ import annotations

from ep_nnapi.graph.value import Constant, DType, Value, operand_shape
from ep_nnapi.lowering.call import Arg, Call, Given, View
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError
from ep_nnapi.nnapi.shapes import Operand, Operands, ShapeError, Tensor, infer

_MAX_SHAPE_SIZE = 64  # size of an axis up to which an INT32 constant is read


def check_shapes(call: Call) -> None:
    """Compares the call's output shapes with those of NNAPI's shape inference.

    Raises Reject(SHAPE) if NNAPI rejects the operands as inconsistent. Raises SpecError if it
    infers other output shapes than the lowering declares, which is a defect of the lowering.
    """
    try:
        inferred = infer(call.spec, operands_of(call), len(call.outputs))
    except ShapeError as error:
        raise Reject(Reason.SHAPE, f"{call.spec.name}: {error}") from None
    for dims, out in zip(inferred, call.outputs, strict=True):
        declared = out.shape if isinstance(out, View) else operand_shape(out.shape)
        if dims is not None and not _matches(dims, declared):
            name = out.value.name if isinstance(out, View) else out.name
            raise SpecError(f"{call.spec.name} computes {list(dims)} for {name}, not {declared}")


def operands_of(call: Call) -> Operands:
    """The call's operands by parameter name, in the form that shape inference expects."""
    return {name: _operand(arg) for name, arg in call.named().items()}


def _matches(inferred: tuple[int | None, ...], declared: tuple[int, ...]) -> bool:
    if len(inferred) != len(declared):
        return False
    return inferred == declared or all(
        a is None or a == b for a, b in zip(inferred, declared, strict=True)
    )


def _operand(arg: Given) -> Operand | tuple[Operand, ...]:
    if isinstance(arg, Value):
        return _tensor(arg)
    if arg is None or isinstance(arg, (int, float)):
        return arg
    if isinstance(arg, View):
        return _tensor(arg)
    if isinstance(arg, tuple):
        return tuple([_tensor(g) for g in arg])
    raise SpecError(f"{arg!r} is not an operand of a call")


def _tensor(arg: Arg) -> Tensor:
    if isinstance(arg, View):
        return Tensor(arg.shape)
    if not isinstance(arg, Value):
        raise SpecError(f"{arg!r} is not a tensor")
    constant = arg.constant
    elements = constant.array if constant is not None and may_be_shape(constant) else None
    return Tensor(operand_shape(arg.shape), elements)


def may_be_shape(constant: Constant) -> bool:
    """True for a constant whose elements are read, as they may be a shape, axes or paddings."""
    return (
        constant.dtype is DType.INT32
        and constant.rank <= 2
        and max(constant.shape, default=1) <= _MAX_SHAPE_SIZE
    )
