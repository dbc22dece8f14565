"""Fusion of activations and removal of unused operations in a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.arguments import View, value_of
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.spec import ADD, FULLY_CONNECTED, RELU, RELU1, RELU6

FUSED = {RELU: FuseCode.RELU, RELU1: FuseCode.RELU1, RELU6: FuseCode.RELU6}


def needed(calls: Sequence[Call], kept: Collection[str]) -> list[Call]:
    """Returns the calls without dead code; `kept` names the cluster's outputs."""
    wanted = set(kept)
    found: list[Call] = []
    for call in reversed(calls):
        if not wanted.isdisjoint([v.name for v in call.writes]):
            wanted.update([v.name for v in call.reads])
            found.append(call)
    return found[::-1]


def fuse_activations(calls: Sequence[Call], kept: Collection[str], kernel_level: int) -> list[Call]:
    """Returns the calls with RELU, RELU1 and RELU6 fused into the producer of their input.

    An activation is fused only if it is the only reader of that input, the input is not in `kept`,
    the names of the cluster's outputs, and Android's kernel of the level applies it.
    """
    readers = Counter([v.name for c in calls for v in c.reads])
    fused: list[Call] = []
    producer: dict[str, int] = {}  # value name -> position in `fused`
    for call in calls:
        for x in call.reads if call.spec in FUSED else ():
            at = producer.get(x.name) if readers[x.name] == 1 and x.name not in kept else None
            alike = x.quantization == call.writes[0].quantization
            if alike and at is not None and _takes_activation(fused[at], kernel_level):
                fused[at] = _with_activation(fused[at], call)
                producer[call.writes[0].name] = at
                break
        else:
            producer.update([(v.name, len(fused)) for v in call.writes])
            fused.append(call)
    return fused


def _takes_activation(call: Call, kernel_level: int) -> bool:
    """True if an activation can be fused; 8-bit sums of Android 8.1 and 9 leave it out."""
    none = call.named().get("activation") == FuseCode.NONE
    return none and not (
        kernel_level < 3 and call.spec is ADD and call.writes[0].quantization is not None
    )


def fuse_biases(calls: Sequence[Call], kept: Collection[str]) -> list[Call]:
    """Returns the calls with sums of a product without bias and a constant row as its bias."""
    readers = Counter([v.name for c in calls for v in c.reads])
    fused: list[Call] = []
    products: dict[str, int] = {}  # value name -> position in `fused`
    for call in calls:
        at = [products.get(v.name) for v in call.reads] if call.spec is ADD else []
        if len(at) == 1 and at[0] is not None and (biased := _with_bias(fused[at[0]], call)):
            fused[at[0]] = biased
            continue
        y = call.writes[0]
        if call.spec is FULLY_CONNECTED and readers[y.name] == 1 and y.name not in kept:
            products[y.name] = len(fused)
        fused.append(call)
    return fused


def _with_bias(product: Call, total: Call) -> Call | None:
    """Returns the product with the constant of the sum as its bias, if that is the same."""
    named, (y,) = product.named(), product.outputs
    zeros = value_of(product.inputs[2])
    rows = [v for a in total.inputs[:2] if (v := value_of(a)) and v.constant is not None]
    if len(rows) != 1 or zeros is None or zeros.constant is None or not isinstance(y, Value):
        return None
    row = rows[0]
    if (
        named["activation"] != FuseCode.NONE
        or (row.shape, row.dtype) != (zeros.shape, zeros.dtype)
        or y.quantization is not None
        or row.dtype is not y.dtype
        or total.outputs[0] != replace(total.writes[0], dims=y.dims)
        or zeros.constant.array.any()
    ):
        return None
    changed = {**named, "bias": row, "activation": total.named()["activation"]}
    origin = tuple(dict.fromkeys(product.origin + total.origin))
    return apply(FULLY_CONNECTED, out=total.outputs, **changed).with_origin(origin, product.whole)


def _with_activation(before: Call, activation: Call) -> Call:
    """Returns `before` with `activation` fused; its output keeps the layout."""
    position = next(i for i, p in enumerate(before.params) if p.name == "activation")
    inputs = list(before.inputs)
    inputs[position] = FUSED[activation.spec]
    old, new = before.outputs[0], activation.writes[0]
    out = View(new, old.perm) if isinstance(old, View) else new
    return before.with_operands(tuple(inputs), (out,), *activation.origin)
