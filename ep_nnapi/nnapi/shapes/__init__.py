"""Output shapes of every operation: the one function for planning, validation and dynamic outputs.

A family's file holds one function per operation and a table `SHAPES`. A function asks for what it
needs by the operand's name in `spec.py`: a tensor operand arrives as `Tensor`, a scalar as its
value; `**scalars` takes all that are not named. It returns the output's dimensions, or a list when
there are several outputs; None stands for a size, or a whole shape, that is only known afterwards.
It raises `Unknown` (by asking a `Tensor` for what is not known) and `ShapeError`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature

from ep_nnapi.nnapi.shapes import (
    blocks,
    convolution,
    detection,
    elementwise,
    lookup,
    matmul,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    resize,
    slicing,
)
from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    Operand,
    Operands,
    Pending,
    Scalar,
    ShapeError,
    Shapes,
    Table,
    Tensor,
    Unknown,
)
from ep_nnapi.nnapi.signature import OperationSpec

__all__ = [
    "SHAPES",
    "Dim",
    "Dims",
    "Operand",
    "Operands",
    "Pending",
    "Scalar",
    "ShapeError",
    "Tensor",
    "Unknown",
    "infer",
]

SHAPES: Table = {
    **blocks.SHAPES,
    **convolution.SHAPES,
    **detection.SHAPES,
    **elementwise.SHAPES,
    **lookup.SHAPES,
    **matmul.SHAPES,
    **movement.SHAPES,
    **normalization.SHAPES,
    **pooling.SHAPES,
    **recurrent.SHAPES,
    **reduction.SHAPES,
    **resize.SHAPES,
    **slicing.SHAPES,
}


def infer(spec: OperationSpec, operands: Operands, outputs: int = 1) -> tuple[Dims | None, ...]:
    """The dimensions of the first `outputs` outputs of an operation on `operands`, by name.

    An omitted operand is None or absent; for an operand that may repeat, give a tuple. Raises
    ShapeError when the operands do not fit one another.
    """
    function = SHAPES.get(spec)
    if function is None:
        return (None,) * outputs
    names, required, everything = _asked(function)
    chosen = operands if everything else {k: v for k, v in operands.items() if k in names}
    given = {name: value for name, value in chosen.items() if value is not None}
    for name in sorted(required - given.keys()):
        raise ShapeError(f"operand {name} was left out, its value is needed")
    if any(value is Pending.PENDING for value in given.values()):
        return (None,) * outputs
    try:
        found = function(**given)
    except Unknown:
        return (None,) * outputs
    every = tuple(found) if isinstance(found, list) else (found,)
    if len(every) < outputs:
        raise ShapeError(f"{spec} of these operands has {len(every)} outputs, not {outputs}")
    return every[:outputs]


@cache
def _asked(function: Callable[..., Shapes]) -> tuple[frozenset[str], frozenset[str], bool]:
    """A function's parameters, those without a default, and whether it takes all others as well."""
    parameters = signature(function).parameters.values()
    named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    return (
        frozenset(p.name for p in named),
        frozenset(p.name for p in named if p.default is Parameter.empty),
        len(named) < len(parameters),
    )
