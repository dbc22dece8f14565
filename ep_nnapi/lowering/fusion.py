"""Fusion of activations and removal of unused operations in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Arg, Call, View
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import RELU, RELU1, RELU6

_FUSED = {RELU: FuseCode.RELU, RELU1: FuseCode.RELU1, RELU6: FuseCode.RELU6}


def value_of(arg: Arg) -> Value | None:
    """Returns the value of a tensor operand in any layout; None for scalars and omitted ones."""
    if isinstance(arg, Value):
        return arg
    return arg.value if isinstance(arg, View) else None


def reads(call: Call) -> tuple[Value, ...]:
    """Returns the values that a call reads, without constants."""
    values = map(value_of, call.inputs)
    return tuple([v for v in values if v is not None and v.constant is None])


def writes(call: Call) -> tuple[Value, ...]:
    """Returns the values that a call computes."""
    return tuple([o.value if isinstance(o, View) else o for o in call.outputs])


def needed(calls: Sequence[Call], kept: Collection[str]) -> list[Call]:
    """Returns the calls without dead code; `kept` names the cluster's outputs."""
    wanted = set(kept)
    found: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint([v.name for v in writes(call)]):
            wanted.update([v.name for v in reads(call)])
            found.append(call)
    return found[::-1]


def fuse_activations(calls: Sequence[Call], kept: Collection[str]) -> list[Call]:
    """Returns the calls with RELU, RELU1 and RELU6 fused into the producer of their input.

    An activation is fused only if it is the only reader of that input and the input is not in
    `kept`, the names of the cluster's outputs.
    """
    readers = Counter([v.name for c in calls for v in reads(c)])
    fused: list[Call] = []
    producer: dict[str, int] = {}  # value name -> position in `fused`
    for call in calls:
        source = _fusible(call, fused, producer)
        if source is not None and readers[call_input(call)] == 1 and call_input(call) not in kept:
            before = fused[source]
            fused[source] = _with_activation(before, call)
            producer[writes(call)[0].name] = source
            continue
        producer.update([(v.name, len(fused)) for v in writes(call)])
        fused.append(call)
    return fused


def call_input(call: Call) -> str:
    """Returns the name of the value that a one-input call reads."""
    return reads(call)[0].name


def _fusible(call: Call, fused: Sequence[Call], producer: dict[str, int]) -> int | None:
    """Returns the position of the operation that the activation `call` can be fused into."""
    if call.spec not in _FUSED or not reads(call):
        return None
    at = producer.get(call_input(call))
    if at is None or fused[at].named().get("activation") != FuseCode.NONE:
        return None
    same_type = reads(call)[0].quantization == writes(call)[0].quantization
    return at if same_type else None


def _with_activation(before: Call, activation: Call) -> Call:
    """Returns `before` with `activation` fused; its output keeps the layout."""
    position = next(i for i, p in enumerate(before.params) if p.name == "activation")
    inputs = list(before.inputs)
    inputs[position] = _FUSED[activation.spec]
    old, new = before.outputs[0], writes(activation)[0]
    out = View(new, old.perm) if isinstance(old, View) else new
    origin = tuple(dict.fromkeys(before.origin + activation.origin))
    return replace(before, inputs=tuple(inputs), outputs=(out,), origin=origin)
