"""Layer normalization and RMS normalization, each in one ONNX operator."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi.spec import ADD, DIV, MEAN, MUL, RSQRT, SQRT, SUB
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, Match, Term, term
from ep_nnapi.ort_devices.scope import Scope

_CENTRED = term(SUB, "x", term(MEAN, "x", "axes", "keep"))
_SQUARE = term(MEAN, term(MUL, _CENTRED, _CENTRED), "inner axes", "inner keep")
_VARIANCE = term(ADD, _SQUARE, "epsilon")
_STANDARDS = (
    term(MUL, _CENTRED, term(RSQRT, _VARIANCE)),
    term(DIV, _CENTRED, term(SQRT, _VARIANCE)),
)
_LAYER_NORMS = tuple(term(ADD, term(MUL, each, "scale"), "shift") for each in _STANDARDS)

_POWER = term(ADD, term(MEAN, term(MUL, "x", "x"), "axes", "keep"), "epsilon")
_ROOT = term(SQRT, _POWER)
_RMS_NORMS = tuple(
    term(MUL, each, "scale")
    for each in (
        term(MUL, "x", term(RSQRT, _POWER)),
        term(MUL, "x", term(DIV, "one", _ROOT)),
        term(DIV, "x", _ROOT),
    )
)


def layer_norm(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """LayerNormalization of the last axes, with a scale and a shift of their shape."""
    return _fusion(scope, flow, n, _LAYER_NORMS, "LayerNormalization", ("x", "scale", "shift"))


def rms_norm(scope: Scope, flow: Flow, n: int) -> Fusion | None:
    """The same without mean and shift, which ONNX Runtime has under another name."""
    return _fusion(scope, flow, n, _RMS_NORMS, "SimplifiedLayerNormalization", ("x", "scale"))


def _fusion(
    scope: Scope,
    flow: Flow,
    n: int,
    patterns: Sequence[Term],
    op_type: str,
    inputs: Sequence[str],
) -> Fusion | None:
    """The result of operation `n` as that operator of those names in the patterns."""
    y = scope.model.operations[n].outputs[0]
    found = flow.first_match(patterns, y)
    if found is None or not flow.encloses(found.members, frozenset([y])):
        return None
    at, rank = found.operands, scope.rank(found.operands["x"])
    epsilon, axes = flow.number(at["epsilon"]), scope.axes(at["axes"], rank)
    start = rank - len(axes)
    if epsilon is None or axes != tuple(range(start, rank)) or not _is_plain(scope, flow, found):
        return None
    if any(scope.shape(at[name]) != scope.shape(at["x"])[start:] for name in inputs[1:]):
        return None

    def lower(scope: Scope) -> None:
        given = [scope.value(at[name], real=True) for name in inputs]
        value = scope.graph.node(op_type, *given, axis=start, epsilon=epsilon)
        scope.define(y, value, real=False)

    return Fusion(found.members, n, lower)


def _is_plain(scope: Scope, flow: Flow, found: Match) -> bool:
    """True if all means are over the same axes, which stay, and the root's inverse is just that."""
    at, rank = found.operands, scope.rank(found.operands["x"])
    axes = scope.axes(at["axes"], rank)
    return (
        bool(flow.number(at["keep"]))
        and ("one" not in at or flow.number(at["one"]) == 1)
        and ("inner keep" not in at or bool(flow.number(at["inner keep"])))
        and ("inner axes" not in at or scope.axes(at["inner axes"], rank) == axes)
    )
