"""Kernels of the reference device, by family; `find` gives the one for an operation and type.

HOWTO

A family's file holds one function per operation and one table, `KERNELS`. A function takes the
operation's operands by the names of their parameters in `spec.py`: tensors as numpy arrays, scalars
as Python values, a parameter that may repeat as a tuple. What may be left out has a default here.
`ShapeError` refuses values that do not fit; the shape function of the operation has passed before.

Besides operands a function may ask, by name, for
    out     the array, or tuple of arrays, that receives the result: uninitialised, C-contiguous, of
            the shape that `nnapi.shapes` infers. Without it, the function returns its results (when
            only the data decides their shape, or where numpy makes a new array anyhow).
    types   the operands and outputs as `model.Operand`s without data, by name: scales, zero points
    run     the `Run` it is part of: `run.check()` in long loops, `run.loop_timeout_ns`
A MODEL operand arrives as a `PreparedGraph`: `branch.run(inputs, (), run)` gives its outputs.

The table says for which types (of the signature's type variable T) a function is meant:
    real(OP, f, F32, F16, Q8, Q8S)   f computes on real numbers: halves and quantized tensors are
                                     decoded to float32 before and encoded after it
    elementwise(OP, f, F32, F16, Q8) the same for a function of elements, broadcast: it is called on
                                     blocks that stay in the cache
    pointwise(OP, f, F32, F16, Q8)   the same for a function of one element of `input` alone: on 8
                                     bits it becomes a table of 256 results, made once
    stored(OP, f, I32, Q8)           f computes on the elements as they are stored
    view(OP, f)                      only the shape changes, for any type
To add a type to an operation, add its code to a row, or a row with another function. To add an
operation: a shape function in `nnapi/shapes`, a kernel here, a test against a float64 formula.

`stored(..., filter=pack)` replaces an operand by what `pack` makes of it, once where everything it
asks for is constant (it asks by name, as a kernel does, and may ask for `types`). So weights are
held once, in the form that the kernel wants. The name may be new: `cell=pack` adds an argument.

Results must be right within one quantum of the exact result rounded, for 8- and 16-bit types; real
kernels compute in float32, and take long sums from `sums`: a millionth of the greatest result is
what a sum of a million numbers may be off. `tests/nnapi/host/test_accuracy.py` asks each operation.
No loop over elements; scratch memory in blocks that stay in the cache.
"""

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import Kernel, table
from ep_nnapi.nnapi.host.kernels import (
    activation,
    blocks,
    control_flow,
    conversion,
    convolution,
    depthwise,
    detection,
    elementwise,
    keypoint,
    lookup,
    lstm,
    matmul,
    movement,
    normalization,
    pooling,
    projection,
    quantized_lstm,
    reduction,
    resize,
    rnn,
    roi,
    sampling,
    slicing,
    svdf,
    transposed,
)
from ep_nnapi.nnapi.signature import OperationSpec

KERNELS = table(
    *activation.KERNELS,
    *blocks.KERNELS,
    *control_flow.KERNELS,
    *conversion.KERNELS,
    *convolution.KERNELS,
    *depthwise.KERNELS,
    *detection.KERNELS,
    *elementwise.KERNELS,
    *keypoint.KERNELS,
    *lookup.KERNELS,
    *lstm.KERNELS,
    *matmul.KERNELS,
    *movement.KERNELS,
    *normalization.KERNELS,
    *pooling.KERNELS,
    *projection.KERNELS,
    *quantized_lstm.KERNELS,
    *reduction.KERNELS,
    *resize.KERNELS,
    *rnn.KERNELS,
    *roi.KERNELS,
    *sampling.KERNELS,
    *slicing.KERNELS,
    *svdf.KERNELS,
    *transposed.KERNELS,
)


def find(spec: OperationSpec, code: OperandCode | None) -> Kernel | None:
    """The kernel for an operation whose type variable T is `code`; None when there is none."""
    return KERNELS.get((spec, code)) or KERNELS.get((spec, None))
