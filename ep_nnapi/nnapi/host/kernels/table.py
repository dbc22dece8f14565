"""Table of all kernels. It imports all families, so it is imported when something is computed."""

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
    """Returns the kernel for an operation with type variable T = `code`; None if there is none."""
    return KERNELS.get((spec, code)) or KERNELS.get((spec, None))
