"""Checks of the arrays that a run is given, the same for every runtime."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.result import COMPUTE, failure


def checked(
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
    model_inputs: Sequence[Operand],
    model_outputs: Sequence[Operand],
) -> Sequence[Array | None]:
    """The output arrays, None for each that is not given.

    Raises RuntimeFailure (BAD_DATA) unless the arrays fit the model's inputs and outputs; the
    shapes of outputs are not checked.
    """
    if len(inputs) != len(model_inputs) or len(outputs) not in (0, len(model_outputs)):
        raise _wrong(
            f"{len(inputs)} inputs and {len(outputs)} outputs are given for"
            f" {len(model_inputs)} and {len(model_outputs)}"
        )
    for n, (array, operand) in enumerate(zip(inputs, model_inputs, strict=True)):
        _check_type(f"input {n}", array, operand)
        if array is not None and not fits(array, operand):
            raise _wrong(f"input {n}: shape {array.shape} is given for {operand.dimensions}")
    given = outputs or [None] * len(model_outputs)
    for n, (array, operand) in enumerate(zip(given, model_outputs, strict=True)):
        _check_type(f"output {n}", array, operand)
    return given


def fits(array: Array, operand: Operand) -> bool:
    """Return True if the array has the declared dimensions; 0 matches any size."""
    declared = operand.dimensions
    if operand.type.tensor and not declared:
        return True
    return array.ndim == len(declared) and all(
        size in (0, given) for given, size in zip(array.shape, declared, strict=True)
    )


def wrong_output(given: tuple[int, ...], computed: tuple[int, ...]) -> RuntimeFailure:
    """The failure of a run that was given an output array of another shape."""
    detail = f"an output array has shape {given}, the output has {computed}"
    return failure(COMPUTE, ResultCode.OUTPUT_INSUFFICIENT_SIZE, detail)


def _check_type(what: str, array: Array | None, operand: Operand) -> None:
    if array is not None and array.dtype != operand.type.numpy:
        raise _wrong(f"{what}: {array.dtype} is given for {operand.type.name}")
    if array is not None and not array.flags.c_contiguous:
        raise _wrong(f"{what}: an array is given that is not C-contiguous")


def _wrong(detail: str) -> RuntimeFailure:
    return failure(COMPUTE, ResultCode.BAD_DATA, detail)
