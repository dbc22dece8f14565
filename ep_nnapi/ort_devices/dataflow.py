"""Search for groups of operations in a model that compute a given expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import ADD, MUL
from ep_nnapi.ort_devices.scope import Scope

_COMMUTATIVE = (ADD, MUL)


@frozen
class Term:
    """An operation.

    inputs      patterns of its first operands; ADD and MUL take theirs in any order
    position    of the output that is meant, None for any
    activation  fused into it
    """

    spec: OperationSpec
    inputs: tuple[Pattern, ...]
    position: int | None = 0
    activation: FuseCode = FuseCode.NONE


Pattern: TypeAlias = Term | str
"""A term, or the name of an operand: the same operand wherever the name occurs."""


def term(
    spec: OperationSpec,
    *inputs: Pattern,
    position: int | None = 0,
    activation: FuseCode = FuseCode.NONE,
) -> Term:
    """An operation on these inputs."""
    return Term(spec, inputs, position, activation)


@frozen
class Match:
    """A place where a pattern occurs.

    operands   the pattern's names and the operands' indexes
    members    numbers of the operations
    """

    operands: Mapping[str, int]
    members: frozenset[int]


@frozen
class Fusion:
    """A group of operations lowered together.

    members   numbers of the operations
    last      the one in whose place the group is lowered
    lower     adds the nodes and defines the group's results
    """

    members: frozenset[int]
    last: int
    lower: Callable[[Scope], None]


class Flow:
    """The operations of a model that compute and read its operands."""

    def __init__(self, model: Model) -> None:
        """Index the operations of `model`."""
        self.model = model
        self.producers: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        for n, operation in enumerate(model.operations):
            self.producers |= dict.fromkeys(operation.outputs, n)
            for index in operation.inputs:
                self.readers.setdefault(index, set()).add(n)

    def match(
        self, pattern: Pattern, index: int, known: Mapping[str, int] = MappingProxyType({})
    ) -> Match | None:
        """Where operand `index` is what the pattern computes; None if it is not.

        known   operands of some of the pattern's names, or of others
        """
        return next(self._matches(pattern, index, Match(known, frozenset())), None)

    def first_match(
        self,
        patterns: Iterable[Term],
        index: int,
        known: Mapping[str, int] = MappingProxyType({}),
    ) -> Match | None:
        """Where operand `index` is what one of the patterns computes."""
        return next(filter(None, (self.match(each, index, known) for each in patterns)), None)

    def _matches(self, pattern: Pattern, index: int, found: Match) -> Iterator[Match]:
        if isinstance(pattern, str):
            if found.operands.get(pattern, index) == index:
                yield Match({**found.operands, pattern: index}, found.members)
            return
        n = self.producers.get(index)
        if n is None or not self._fits(pattern, n, index):
            return
        inputs = self.model.operations[n].inputs[: len(pattern.inputs)]
        orders = (inputs, inputs[::-1]) if pattern.spec in _COMMUTATIVE else (inputs,)
        for order in orders:
            matches = [Match(found.operands, found.members | {n})]
            for each, operand in zip(pattern.inputs, order, strict=True):
                matches = [m for so_far in matches for m in self._matches(each, operand, so_far)]
            yield from matches

    def _fits(self, pattern: Term, n: int, index: int) -> bool:
        operation = self.model.operations[n]
        return (
            operation.spec == pattern.spec
            and (pattern.position is None or operation.outputs[pattern.position] == index)
            and self.activation_is(n, len(pattern.inputs), pattern.activation)
        )

    def activation_is(self, n: int, count: int, activation: FuseCode) -> bool:
        """True if all operands of an operation from `count` on are this activation's code.

        NONE is 0, which is what other optional operands are by default.
        """
        rest = self.model.operations[n].inputs[count:]
        return all(self.number(index) == activation for index in rest)

    def number(self, index: int) -> float | None:
        """Value of a constant of one element; None for all else."""
        operand = self.model.operands[index]
        if not isinstance(operand.value, Data) or operand.size != 1:
            return None
        return float(operand.item)

    def encloses(self, members: frozenset[int], results: frozenset[int]) -> bool:
        """True if nothing but `results` of what the members compute is read elsewhere."""
        inner = {i for n in members for i in self.model.operations[n].outputs} - results
        return inner.isdisjoint(self.model.outputs) and all(
            self.readers.get(index, set()) <= members for index in inner
        )
