"""Rejections of nodes: the node, the reason and advice; names in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TypeVar

from ep_nnapi.nnapi.errors import Reason, suggestion
from ep_nnapi.nnapi.immutable import frozen

_MOST_LISTED = 12  # names in one sentence


ADVICE = {
    Reason.OP: "NNAPI has no equivalent: replace the operator, or leave it to the CPU",
    Reason.OPSET: "convert the model to an opset that is known here",
    Reason.LEVEL: "target newer phones, or replace what needs the level",
    Reason.DTYPE: "convert the tensor to a type that NNAPI has",
    Reason.RANK: "reshape to four dimensions or fewer",
    Reason.SHAPE: "fix the sizes of inputs (--fix name=1,3,224,224)",
    Reason.CONSTANT: "make it an initializer",
    Reason.ATTRIBUTE: "export with settings that NNAPI has",
    Reason.QUANTIZATION: "quantize with parameters that NNAPI has",
    Reason.SIZE: "make it smaller, or leave it to the CPU",
    Reason.CONSTANT_NODE: "none needed: it does not depend on the model's inputs",
    Reason.NOT_WORTH_IT: "none needed: the partitioning options leave it to the CPU",
    Reason.EXCLUDED: "none needed: an option excludes it",
    Reason.CLAIMED: "list this provider before the other one to change that",
    Reason.DRIVER: "try another device (--device) or a newer driver",
    Reason.ACCURACY: "none needed: the CPU computes it; a newer driver may be right",
}
"""Advice to the user for each reason."""

FIX_ADVICE = "fix it to a number"
"""Ends the detail of a SHAPE rejection that a fixed input size repairs; no other SHAPE one."""
TRIED = "; the sizes were only tried"
"""Ends the detail of a SHAPE rejection for sizes that the model leaves open."""
SHAPE_ADVICE = "no size of an input changes this: change the model, or leave it to the CPU"
"""Advice for all other SHAPE rejections, data-dependent shapes among them."""


@frozen
class SourceLine:
    """The place in a PyTorch program that a node was exported from.

    module  path of the module: `layers.0.conv`, "" if unknown
    file    the file of the line, "" if unknown; and its number and code
    """

    module: str
    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        """`layers.0.conv at net.py:12`."""
        return " at ".join(part for part in (self.module, self._place) if part)

    @property
    def _place(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def clause(self) -> str:
        """The end of a clause about the node, ` in layers.0.conv at net.py:12`; "" if unknown."""
        module = f" in {self.module}" if self.module else ""
        return module + (f" at {self._place}" if self.file else "")

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"module": self.module, "file": self.file, "line": self.line, "code": self.code}


@frozen
class Rejection:
    """A rejected node: its name (or first output), operator, reason, and a detail with a remedy.

    caused_by    the rejected node that causes this rejection, "" for none
    kind         the detail without names, used to group rejections
    accepted_by  the rule set (`target`) that would accept the node, "" where none is known
    source       the place in a PyTorch program that it comes from, where the model records it
    """

    node: str
    op_type: str
    reason: Reason
    detail: str
    caused_by: str = field(default="", compare=False)
    kind: str = field(default="", compare=False)
    accepted_by: str = field(default="", compare=False)
    source: SourceLine | None = field(default=None, compare=False)


@frozen
class Note:
    """A remark on an accepted node: its name (or first output), its operator and the text."""

    node: str
    op_type: str
    detail: str
    kind: str = field(default="", compare=False)


Remark = TypeVar("Remark", Rejection, Note)


def by_kind(found: Iterable[Remark]) -> list[list[Remark]]:
    """Group rejections or notes by operator and kind of detail, in the order of the first ones."""
    groups: dict[tuple[str, str], list[Remark]] = {}
    for each in found:
        groups.setdefault((each.op_type, each.kind or each.detail), []).append(each)
    return list(groups.values())


def kind_row(same: Sequence[Rejection] | Sequence[Note]) -> tuple[str, str, str, str]:
    """Operator, number of nodes, first and last node, and detail of a group of `by_kind`."""
    first, last = same[0], same[-1]
    nodes = first.node if len(same) == 1 else f"{first.node} to {last.node}"
    detail = first.detail if len({r.detail for r in same}) == 1 else first.kind or first.detail
    return first.op_type, str(len(same)), nodes, detail


def valid_names(given: str, names: Iterable[str]) -> str:
    """List the valid names, at most 12, and the one that `given` may be a misspelling of."""
    listed = list(dict.fromkeys(names))
    text = ", ".join(listed[:_MOST_LISTED]) or "none"
    if len(listed) > _MOST_LISTED:
        text += f" and {len(listed) - _MOST_LISTED} more"
    return text + suggestion(given, listed)
