"""GRU layers, which NNAPI lacks, found in the steps that stand in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.spec import (
    ADD,
    CONCATENATION,
    F16,
    F32,
    FULLY_CONNECTED,
    LOGISTIC,
    MUL,
    SPLIT,
    SUB,
    TANH,
)
from ep_nnapi.ort_devices.dataflow import Flow, Fusion, Pattern, Term, term
from ep_nnapi.ort_devices.scope import Inexpressible, Scope


def _half(total: Pattern, position: int) -> Term:
    """The update gate (0) or the reset gate (1)."""
    return term(SPLIT, term(LOGISTIC, total), "gate axis", "gate count", position=position)


_TOTAL = term(ADD, "gates", term(FULLY_CONNECTED, "h", "R gates", "bias R gates"))
_UPDATE, _RESET = (_half(_TOTAL, position) for position in (0, 1))
_FIRST_UPDATE, _FIRST_RESET = (_half("gates", position) for position in (0, 1))


def _step(inside: Pattern) -> Term:
    candidate = term(TANH, term(ADD, "candidate", inside))
    return term(ADD, candidate, term(MUL, _UPDATE, term(SUB, "h", candidate)))


def _first(total: Pattern) -> Term:
    """A step from a state of zeros."""
    candidate = term(TANH, total)
    return term(SUB, candidate, term(MUL, _FIRST_UPDATE, candidate))


def _seen(state: Pattern) -> Term:
    return term(FULLY_CONNECTED, state, "R candidate", "bias R candidate")


_STEPS = {
    1: (
        _step(term(MUL, _RESET, _seen("h"))),
        _first(term(ADD, "candidate", term(MUL, _FIRST_RESET, "bias R candidate"))),
    ),
    0: (_step(_seen(term(MUL, _RESET, "h"))), _first("candidate")),
}
"""By ONNX's `linear_before_reset`: a step, and the first one without an initial state."""
_READ = term(SPLIT, term(FULLY_CONNECTED, "x", "W", "bias"), "axis", "count", position=None)
"""Part of the product of all inputs and the weights of some gates."""


@frozen
class _Step:
    """One step.

    y          the state after it, which operation `n` computes
    operands   those of its pattern; "h" is the state before it, absent if that is zeros
    """

    y: int
    n: int
    operands: dict[str, int]
    members: frozenset[int]


@frozen
class _Read:
    """The product of all inputs and the weights of some gates, as the steps read it."""

    x: int
    weights: int
    bias: int
    backward: bool
    members: frozenset[int]


@frozen
class _Layer:
    """A layer; each pair of constants is of the gates and of the candidate.

    start    the initial state, None for zeros
    last     the last state
    joined   the states of all steps in the order of time, [times * batches, units], if read
    """

    x: int
    start: int | None
    last: int
    joined: int | None
    weights: tuple[int, int]
    recurrent: tuple[int, int]
    biases: tuple[int, int]
    recurrent_biases: tuple[int, int]
    linear_before_reset: int
    backward: bool

    @property
    def constants(self) -> tuple[int, ...]:
        """All weights and biases."""
        return (*self.weights, *self.recurrent, *self.biases, *self.recurrent_biases)

    def lower(self, scope: Scope) -> None:
        """Add the node. Source: ONNX GRU-14."""
        graph, (batches, units) = scope.graph, scope.shape(self.last)
        times, size = scope.shape(self.x)[0] // batches, scope.shape(self.x)[1]
        start = ""
        if self.start is not None:
            state = scope.value(self.start, real=True)
            start = graph.reshape(state, (1, batches, units))
        outputs, last = graph.many(
            "GRU",
            2,
            graph.reshape(scope.value(self.x, real=True), (times, batches, size)),
            scope.stacked(self.weights),
            scope.stacked(self.recurrent),
            scope.stacked((*self.biases, *self.recurrent_biases)),
            "",
            start,
            hidden_size=units,
            direction="reverse" if self.backward else "forward",
            linear_before_reset=self.linear_before_reset,
        )
        graph.shapes[last] = (1, batches, units)
        scope.define(self.last, graph.reshape(last, (batches, units)), real=False)
        if self.joined is not None:
            rows = graph.reshape(outputs, (times * batches, units))
            scope.define(self.joined, rows, real=False)


def gru_layers(scope: Scope, flow: Flow) -> Iterator[Fusion]:
    """The GRU layers of a model."""
    for linear_before_reset, patterns in _STEPS.items():
        for chain in _chains(_steps(flow, patterns)):
            try:
                found = _layer(scope, flow, chain, linear_before_reset)
            except Inexpressible:  # a shape is unknown
                continue
            if found is not None:
                yield found


def _steps(flow: Flow, patterns: Sequence[Term]) -> list[_Step]:
    found = []
    for n, operation in enumerate(flow.model.operations):
        for pattern in patterns:
            y = operation.outputs[0]
            if operation.spec == pattern.spec and flow.model.operands[y].type in (F32, F16):
                match = flow.match(pattern, y)
                if match is not None and flow.number(match.operands["gate axis"]) == 1:
                    found.append(_Step(y, n, dict(match.operands), match.members))
    return found


def _chains(steps: Sequence[_Step]) -> Iterator[list[_Step]]:
    """Steps each of which takes the state of the one before."""
    after = {step.operands.get("h"): step for step in steps}
    states = {step.y for step in steps}
    for step in steps:
        if step.operands.get("h") not in states:
            chain = [step]
            while chain[-1].y in after:
                chain.append(after[chain[-1].y])
            yield chain


def _layer(
    scope: Scope, flow: Flow, chain: Sequence[_Step], linear_before_reset: int
) -> Fusion | None:
    """The layer of these steps; None unless they share weights and read all inputs in order."""
    if len(chain) < 2:
        return None
    gates, candidate = (
        _read(scope, flow, [step.operands[name] for step in chain])
        for name in ("gates", "candidate")
    )
    if gates is None or candidate is None or not _share_weights(scope, chain):
        return None
    if (gates.x, gates.backward) != (candidate.x, candidate.backward):
        return None
    own, last = chain[-1].operands, chain[-1]
    members = frozenset.union(gates.members, candidate.members, *(s.members for s in chain))
    results, join = {last.y}, _join(flow, chain, members, backward=gates.backward)
    joined = None
    if join is not None:
        (joined,) = flow.model.operations[join].outputs
        members |= {join}
        results.add(joined)
    layer = _Layer(
        gates.x,
        chain[0].operands.get("h"),
        last.y,
        joined,
        (gates.weights, candidate.weights),
        (own["R gates"], own["R candidate"]),
        (gates.bias, candidate.bias),
        (own["bias R gates"], own["bias R candidate"]),
        linear_before_reset,
        gates.backward,
    )
    if not flow.encloses(members, frozenset(results)) or not all(
        map(scope.constant, layer.constants)
    ):
        return None
    return Fusion(members, last.n, layer.lower)


def _share_weights(scope: Scope, chain: Sequence[_Step]) -> bool:
    """True if all steps have the weights and biases of the last one."""
    own = chain[-1].operands
    return all(
        scope.operand(step.operands.get(name, own[name])) == scope.operand(own[name])
        for step in chain
        for name in ("R gates", "bias R gates", "R candidate", "bias R candidate")
    )


def _read(scope: Scope, flow: Flow, parts: Sequence[int]) -> _Read | None:
    """What the steps read in this order; None unless it is one product with the whole sequence."""
    found = flow.match(_READ, parts[0])
    if found is None or flow.number(found.operands["axis"]) != 0:
        return None
    outputs = flow.model.operations[flow.producers[parts[0]]].outputs
    backward = tuple(parts) != outputs
    x, weights = found.operands["x"], found.operands["W"]
    whole = len(scope.shape(x)) == 2 and scope.shape(x)[1] == scope.shape(weights)[1]
    if not whole or (backward and tuple(parts[::-1]) != outputs):
        return None
    return _Read(x, weights, found.operands["bias"], backward, found.members)


def _join(
    flow: Flow, chain: Sequence[_Step], members: frozenset[int], *, backward: bool
) -> int | None:
    """The operation that concatenates the states of all steps in the order of time, if any."""
    states = tuple(step.y for step in (reversed(chain) if backward else chain))
    for n in flow.readers.get(states[0], set()) - members:
        operation = flow.model.operations[n]
        *joined, axis = operation.inputs
        if operation.spec == CONCATENATION and tuple(joined) == states and not flow.number(axis):
            return n
    return None
