"""Image resizing."""

from __future__ import annotations

from ep_nnapi.litert.operation import FlatLowering, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.row import row


def _resize(operator: str, kind: str) -> FlatLowering:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, to the size of the output."""

    def lower(op: FlatOp) -> None:
        op.same_quantization("input")
        signed = op.signed("input")
        _, high, wide, _ = op.image_output(signed=signed).shape
        inputs = [op.image("input", signed=signed), op.graph.ints((high, wide))]
        fields = {
            "alignCorners": bool(op.scalar("align_corners", default=False)),
            "halfPixelCenters": bool(op.scalar("half_pixel_centers", default=False)),
        }
        op.finish_image(operator, inputs, kind, signed=signed, **fields)

    return lower


_DATA = (F32, Q8, Q8S)
ROWS = (
    row(spec.RESIZE_BILINEAR, _resize("RESIZE_BILINEAR", "ResizeBilinear"), *_DATA),
    row(
        spec.RESIZE_NEAREST_NEIGHBOR,
        _resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"),
        *_DATA,
    ),
)
