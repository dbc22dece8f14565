"""Operators that only change the shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.emit import require_same_quantization, reshape
from ep_nnapi.operators.lib.node import Lowering, Node, Op, op


def lower(n: Node) -> Iterator[Call]:
    """Emit the first input reshaped to the inferred shape of the output."""
    require_same_quantization(n, n.input(0), n.output())
    yield from reshape(n, n.input(0), n.output())


def reshaping(op_type: str, since: int, doc: str, lower: Lowering = lower) -> Op:
    """Return an operator whose output has the elements of its first input, in order."""
    source = f"Source: ONNX {op_type}-{since} and later; NDK ANEURALNETWORKS_RESHAPE."
    return Op(op_type, "", since, lower, f"{doc}\n\n{source}")


TABLE = (
    reshaping("Reshape", 1, "The elements in another shape (0 and -1 are resolved before)."),
    reshaping("Flatten", 1, "All dimensions before `axis` as one, the others as another."),
    reshaping("Squeeze", 1, "Without dimensions of 1."),
    reshaping("Unsqueeze", 1, "With more dimensions of 1."),
    reshaping("Identity", 1, "The same tensor."),
)


@op("Dropout", since=7)
def dropout_7(n: Node) -> Iterator[Call]:
    """The input as it is: nothing is dropped in inference.

    Source: ONNX Dropout-7, Dropout-10; NDK ANEURALNETWORKS_RESHAPE.
    """
    n.require(not n.has_output(1), Reason.ATTRIBUTE, "output mask is used; NNAPI has no dropout")
    yield from lower(n)


@op("Dropout", since=12)
def dropout_12(n: Node) -> Iterator[Call]:
    """The input as it is, where `training_mode` is constant and false or left out.

    Source: ONNX Dropout-12, Dropout-13, Dropout-22; NDK ANEURALNETWORKS_RESHAPE.
    """
    trains = n.has(2) and bool(n.array(2).any())
    n.require(not trains, Reason.ATTRIBUTE, "training_mode is true; NNAPI supports only inference")
    yield from dropout_7.lower(n)
