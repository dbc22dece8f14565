"""Operators as ONNX Runtime has them, which also makes of NaN and infinities what it does.

What a composite's members make of NaN, infinities and overflow NNAPI does not define. The inner
models have one opset, so operators of others get its form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, defs

from ep_nnapi.nnapi.model import CompositePort
from ep_nnapi.nnapi.sizes import now
from ep_nnapi.nnapi.spec import I32
from ep_nnapi.ort_devices.graph import OPSET, Attribute
from ep_nnapi.ort_devices.scope import is_coded

if TYPE_CHECKING:
    from ep_nnapi.ort_devices.composites import Group

SPECIAL = (
    *("ArgMax", "ArgMin", "Asinh", "Atanh", "Celu", "Clip", "CumSum", "Einsum", "Gemm"),
    *("GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "Hardmax", "InstanceNormalization"),
    *("LSTM", "LogSoftmax", "LpNormalization", "LpPool", "MatMul"),
    *("MeanVarianceNormalization", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
    *("ReduceSumSquare", "Resize", "RoiAlign", "Round", "Selu", "Sign", "Sinh", "TopK"),
)
"""Operators whose members make other numbers of NaN, infinities, overflow and -0."""

_NOW_INPUTS = {"axes": 1, "k": 1, "min": 1, "max": 2}
"""Attributes of old schemas, with the inputs that they have become."""
_OTHER_BEFORE = {"Hardmax": 13, "LogSoftmax": 13, "Resize": 13, "GroupNormalization": 21}
"""Versions before which operators of the same attributes compute something else."""
_OLD_DEFAULTS = {"RoiAlign": {"coordinate_transformation_mode": "output_half_pixel"}}
"""Defaults of attributes that the schema before the newest one does not name."""


def has_newest_form(group: Group) -> bool:
    """True for an operator of real numbers that means the same in the newest schema."""
    composite = group.composite
    known = {*defs.get_schema(composite.name, OPSET).attributes, *_NOW_INPUTS}
    ports = [port for port in (*composite.inputs, *composite.outputs) if port is not None]
    return (
        composite.since >= _OTHER_BEFORE.get(composite.name, 1)
        and composite.attributes.keys() <= known
        and not group.attribute("layout", 0)
        and not (composite.name == "Resize" and _is_inferred_smaller(group))
        and not any(is_coded(group.operand(port)) for port in ports)
    )


def _is_inferred_smaller(group: Group) -> bool:
    """True for scales by which ONNX infers other sizes than are computed, as in `sizes.scaled`.

    ONNX Runtime computes them and then refuses to write them.
    """
    if not group.given(2) or 0 in group.input(2).shape:
        return False
    before, after = group.input(0).shape, group.output.shape
    given = group.composite.attributes.get("axes")
    axes = given if isinstance(given, tuple) else range(len(before))
    scales = zip(axes, group.operand(group.input(2)).array, strict=True)
    return any(
        int(now(before[axis]) * float(scale)) != now(after[axis])
        for axis, scale in scales
        if isinstance(axis, int)
    )


def newest_form(group: Group) -> None:
    """Add the node; attributes that have become inputs are constants."""
    composite, constants = group.composite, group.graph.constants
    schema = defs.get_schema(composite.name, OPSET)
    old = _OLD_DEFAULTS.get(composite.name, {}) if composite.since < schema.since_version else {}
    attributes: dict[str, Attribute] = {**old, **composite.attributes}
    given = [
        group.graph.cast(value, TensorProto.INT64)
        if _is_wider(group, composite.inputs[i], schema.inputs, i)
        else value
        for i, value in enumerate(group.values())
    ]
    for name in sorted(attributes.keys() - schema.attributes.keys()):
        at, number = _NOW_INPUTS[name], np.array(attributes.pop(name))
        given += [""] * (at + 1 - len(given))
        integers = number.dtype.kind == "i"
        given[at] = constants.array(
            number.reshape(-1).astype(np.int64) if integers else number.astype(np.float32)
        )
    count = len(composite.outputs)
    found = group.graph.many(composite.name, count, *given, domain="", **attributes)
    for i, value in enumerate(found):
        wider = _is_wider(group, composite.outputs[i], schema.outputs, i)
        group.deliver(group.graph.cast(value, TensorProto.INT32) if wider else value, i)


def _is_wider(
    group: Group,
    port: CompositePort | None,
    formal: Sequence[defs.OpSchema.FormalParameter],
    i: int,
) -> bool:
    """True if parameter `i` is INT64 where its operand is INT32."""
    same = "tensor(int32)" in formal[min(i, len(formal) - 1)].types
    return port is not None and not same and group.operand(port).type is I32
