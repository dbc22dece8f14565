"""Composites that LiteRT has one operator for: what the ONNX model had before it was lowered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ep_nnapi.litert.flat_operator import OptionValue
from ep_nnapi.litert.operation import TensorScope
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Composite
from ep_nnapi.nnapi.spec import F16, F32

Builtin: TypeAlias = tuple[str, Mapping[str, OptionValue]]
"""An operator of one tensor, and the fields of its options."""

_GELU, _BY_TANH = (("GELU", {"approximate": by_tanh}) for by_tanh in (False, True))
_BUILTINS: Mapping[tuple[str, object], Builtin] = {
    ("Gelu", None): _GELU,
    ("Gelu", "none"): _GELU,
    ("Gelu", "tanh"): _BY_TANH,
    ("com.microsoft:Gelu", None): _GELU,
    ("com.microsoft:FastGelu", None): _BY_TANH,
    ("Ceil", None): ("CEIL", {}),
    ("Cos", None): ("COS", {}),
    ("Round", None): ("ROUND", {}),
    ("Sign", None): ("SIGN", {}),
}
"""By the composite's name and its attribute `approximate`; all of real numbers."""


def builtin(scope: TensorScope, composite: Composite) -> Builtin | None:
    """The operator that computes the composite; None if its members do."""
    ports = (*composite.inputs, *composite.outputs)
    if len(ports) != 2 or composite.activation is not FuseCode.NONE:
        return None
    known = [(p.operand, p.perm) for p in ports if p is not None and isinstance(p.operand, int)]
    if len({(scope.dims.get(i), perm) for i, perm in known}) != 1 or len(known) != 2:
        return None
    if any(scope.operand(index).type not in (F32, F16) for index, _ in known):
        return None
    return _BUILTINS.get((composite.name, composite.attributes.get("approximate")))


def lower(scope: TensorScope, composite: Composite, found: Builtin) -> None:
    """Add the operator in place of the composite's members."""
    source, result = (p.operand for p in (composite.inputs[0], composite.outputs[0]) if p)
    assert isinstance(source, int)
    assert isinstance(result, int)
    operator, options = found
    scope.graph.operator(operator, [scope.value(source)], [scope.computed(result)], options)
