"""Composites of a cluster's model: the operators of ONNX that its operations compute.

A value has one name however its calls are rewritten. So an operator is known by its values: where
the model has operands for them, the operator computes the ones from the others, and its members
are the operations of which nothing else needs the results. An operator whose values are not there,
because its calls were merged with others, is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, Whole
from ep_nnapi.lowering.fusion import FUSED
from ep_nnapi.lowering.reshapes import before_reshape
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Composite, CompositePort, Operation
from ep_nnapi.nnapi.spec import RESHAPE

Ports = Callable[[Value, Whole], Iterable[CompositePort]]
"""The operands of the model that have a value, by its name."""


@dataclass(slots=True)
class Operators:
    """The operators of a cluster's nodes, and how their values can be seen."""

    wholes: dict[int, Whole] = field(default_factory=dict)
    reshaped: dict[str, Value] = field(default_factory=dict)
    active: dict[str, tuple[Value, FuseCode]] = field(default_factory=dict)

    @staticmethod
    def of(calls: Iterable[Call]) -> Operators:
        """Returns the operators of a cluster's calls, as its nodes were lowered."""
        found = Operators()
        for call in calls:
            if call.whole is not None:
                found.wholes.setdefault(id(call.whole), call.whole)
            if call.spec is RESHAPE and call.reads:
                found.reshaped[call.writes[0].name] = call.reads[0]
            elif call.spec in FUSED and call.reads:
                found.active[call.reads[0].name] = call.writes[0], FUSED[call.spec]
        return found

    def forms(self, value: Value) -> Iterator[Value]:
        """Yields the value, and others that it is but for the shape."""
        yield value
        yield before_reshape(value, value)
        if value.name in self.reshaped:
            yield from self.forms(self.reshaped[value.name])


@dataclass(slots=True)
class CompositeFinder:
    """Finds the composites of a model.

    outputs   operands that are outputs of the model
    """

    operators: Operators
    operations: Sequence[Operation]
    outputs: Collection[int]
    ports: Ports
    _producers: dict[int, int] = field(default_factory=dict)
    _readers: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def found(self) -> tuple[Composite, ...]:
        """Returns the composites, in the order of the nodes; none that is a part of another."""
        for n, operation in enumerate(self.operations):
            self._producers.update(dict.fromkeys(operation.outputs, n))
            for index in operation.inputs:
                self._readers[index].append(n)
        composites = map(self._composite, self.operators.wholes.values())
        found = [each for each in composites if each is not None]
        sizes = dict[int, int]()  # of the largest composite that has an operation
        for each in sorted(found, key=lambda c: len(c.members)):
            sizes.update(dict.fromkeys(each.members, len(each.members)))
        return tuple([c for c in found if any(sizes[n] == len(c.members) for n in c.members)])

    def _composite(self, whole: Whole) -> Composite | None:
        outputs, activation = self._outputs(whole)
        delivered = [p.operand for p in outputs if p is not None and isinstance(p.operand, int)]
        if not delivered or not self._producers.keys() >= set(delivered):  # or it is an input
            return None
        first = min(self._producers[index] for index in delivered)
        inputs = [self._port(v, whole, first) for v in whole.inputs]
        if any(v is not None and p is None for v, p in zip(whole.inputs, inputs, strict=True)):
            return None
        given = {port.operand for port in inputs if port is not None}
        members = self._members(delivered, given)
        if members is None:
            return None
        return Composite(
            whole.name,
            whole.since,
            tuple(inputs),
            tuple(outputs),
            whole.attributes,
            tuple(sorted(members)),
            activation,
        )

    def _outputs(self, whole: Whole) -> tuple[list[CompositePort | None], FuseCode]:
        """Returns the ports of the outputs, the first perhaps after an activation."""
        end = len(self.operations)
        first, *others = [self._port(v, whole, end) for v in whole.outputs]
        value = whole.outputs[0]
        if first is None and value is not None and value.name in self.operators.active:
            active, activation = self.operators.active[value.name]
            return [self._port(active, whole, end), *others], activation
        return [first, *others], FuseCode.NONE

    def _port(self, value: Value | None, whole: Whole, before: int) -> CompositePort | None:
        """Returns the first form of a value of known shape that is there before an operation."""
        if value is None or value.dims is None:
            return None
        for form in self.operators.forms(value):
            for port in self.ports(form, whole):
                operand = port.operand
                if not isinstance(operand, int) or self._producers.get(operand, -1) < before:
                    return CompositePort(port.operand, port.perm, value.shape)
        return None

    def _members(self, delivered: Sequence[int], given: Set[object]) -> set[int] | None:
        """Returns the operations that only these operands need; None if they compute others too."""
        members = set[int]()
        ends = {self._producers[index] for index in delivered}
        waiting = set(ends)
        while waiting:
            n = max(waiting)  # after all that read its results
            waiting.remove(n)
            operation = self.operations[n]
            inner = {index for index in operation.outputs if index not in delivered}
            read = {reader for index in inner for reader in self._readers[index]}
            if members >= read and inner.isdisjoint(self.outputs) and given.isdisjoint(inner):
                members.add(n)
                sources = {i for i in operation.inputs if i not in given}
                waiting |= {self._producers[i] for i in sources & self._producers.keys()}
            elif n in ends:
                return None
        return members
