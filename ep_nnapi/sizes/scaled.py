"""Output shapes of Resize and Upsample by scales, which may be inferred smaller than computed."""

from __future__ import annotations

import numpy as np

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import now
from ep_nnapi.sizes.symbolic import RuleInputs, scales_of


def correct_scaled_sizes(node: GraphNode) -> tuple[Value | None, ...]:
    """Corrects the node's inferred output shape to what ONNX Runtime's kernels compute.

    They round down the product of float32 numbers: 31 elements times 16/31 are 16. Shape inference
    multiplies in double precision and finds 15.
    """
    found = _computed(node)
    return tuple(v and replace(v, dims=found) for v in node.outputs) if found else node.outputs


def declares_other_scaled_size(node: GraphNode) -> bool:
    """True if a declared size is not what the kernels compute by the node's scales."""
    found = _computed(node)
    return found is not None and any(found != v.dims for v in outputs_of(node))


def _computed(node: GraphNode) -> tuple[Dim, ...] | None:
    """The output's dimensions, where scales and the size determine one; None for other nodes."""
    cropped = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if node.op_type not in ("Resize", "Upsample") or node.domain or cropped:
        return None
    (x, *_), (y, *_) = node.inputs, node.outputs
    if x is None or y is None or not x.dims or len(y.dims or ()) != len(x.dims):
        return None
    try:
        scales = scales_of(RuleInputs(node), len(x.dims))
        found = list(y.dims or ())
        for axis, scale in scales.items():
            if isinstance(size := x.dims[axis], int) and type(found[axis]) is int:
                found[axis] = int(np.float32(now(size)) * np.float32(scale))
    except (IndexError, TypeError, ValueError, OverflowError):  # unknown, or contradictory
        return None
    return tuple(found)
