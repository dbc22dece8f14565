"""Shape inference for NNAPI operations, used for planning, validation and dynamic outputs.

Each module has one function per operation and a table `SHAPES`. The parameters of a function are
operand names of `spec.py`: a tensor operand is passed as `Tensor`, a scalar as its value;
`**scalars` takes all others. It returns the output's dimensions, or a list for several outputs.
None is a size, or a whole shape, that is unknown until the operation runs (data-dependent).
It raises `UnknownOperand` (when it reads an unknown property of a `Tensor`) and `ShapeError`.
"""

from __future__ import annotations

from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.shapes.operands import (
    Dims,
    Operands,
    Pending,
    ShapeError,
    ShapeFunctions,
    UnknownOperand,
    parameters_of,
)
from ep_nnapi.nnapi.signature import OperationSpec

SHAPES: ShapeFunctions = {
    row: function
    for family in families(__name__, __path__)
    for row, function in getattr(family, "SHAPES", {}).items()
}


def infer(spec: OperationSpec, operands: Operands, outputs: int = 1) -> tuple[Dims | None, ...]:
    """Infer the dimensions of the first `outputs` outputs of an operation.

    operands   by name; None or absent if omitted, a tuple for a repeated parameter

    A shape that cannot be inferred is None. Raises ShapeError if the operands are inconsistent.
    """
    function = SHAPES.get(spec)
    if function is None:
        return (None,) * outputs
    names, required, everything = parameters_of(function)
    given, pending = {}, False
    for name, value in operands.items():
        if value is not None and (everything or name in names):
            given[name] = value
            pending = pending or value is Pending.PENDING
    if not required <= given.keys():
        missing = min(required - given.keys())
        raise ShapeError(f"operand {missing} is missing, its value is required")
    if pending:
        return (None,) * outputs
    try:
        found = function(**given)
    except UnknownOperand:
        return (None,) * outputs
    every = tuple(found) if isinstance(found, list) else (found,)
    if len(every) < outputs:
        raise ShapeError(f"{spec} of these operands has {len(every)} outputs, not {outputs}")
    return every[:outputs]
