"""Text of verdicts, for `run` and for errors of `prepare`."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.diagnostics.output_kinds import Kind
from ep_nnapi.diagnostics.verdict import Difference, LessAccurate, Verdict

NOTHING = "This comparison proves nothing: "


def difference_sentence(found: Sequence[Difference]) -> str:
    """Returns a sentence on the output with the largest difference and its tolerance."""
    worst = max(found, key=lambda d: (d.exceeds, d.relative))
    if worst.absolute is None:
        return f"{worst.output} has another shape, or numbers on one side only: no tolerance is met"
    way = "beyond" if worst.exceeds else "within"
    if worst.quantum is not None:
        measure = f"{worst.absolute / worst.quantum:.3g} times the quantum {worst.quantum:.3g}"
        return f"{measure} of {worst.output}: {way} the tolerance of {worst.tolerance:g}"
    if worst.exceeds and not worst.spread:
        return (
            f"{worst.output} is {worst.absolute:.3g} off where one value is expected throughout: "
            "no tolerance relative to a spread is met"
        )
    return f"{worst.relative:.3g} of its spread in {worst.output}: {way} the tolerance of " + (
        f"{worst.tolerance:g}"
    )


def accuracy_sentence(verdict: Verdict) -> str:
    """Returns a sentence on the less accurate provider; empty if all is within tolerance."""
    if verdict.less_accurate is LessAccurate.NONE:
        return ""
    if not verdict.description:
        return "No more exact computation is possible that would tell which of them is wrong."
    measure = f"Against {verdict.description}, "
    if verdict.errors is not None:
        measure += "NNAPI is off by {:.3g} and the CPU by {:.3g}: ".format(*verdict.errors)
    return (
        measure
        + {
            LessAccurate.NNAPI: "NNAPI is further off.",
            LessAccurate.CPU: "the CPU is further off.",
            LessAccurate.ALIKE: "NNAPI is no further off than the CPU.",
            LessAccurate.UNKNOWN: "that does not tell which of them is wrong.",
        }[verdict.less_accurate]
    )


def sentences(verdict: Verdict) -> list[str]:
    """Returns all sentences for a verdict."""
    found = verdict.differences
    if not found:
        return []
    if verdict.shows_nothing:
        names = ", ".join(d.output for d in found)
        return [f"{NOTHING}{names} holds one value throughout, or no finite numbers."]
    random = ", ".join(d.output for d in found if d.kind is Kind.RANDOM)
    compared = [d for d in found if d.kind is not Kind.RANDOM]
    empty = [d.output for d in compared if d.shows_nothing]
    about = f"{NOTHING}{', '.join(empty)} holds one value throughout, or no finite numbers."
    said = (
        difference_sentence(compared) if compared else "",
        f"{random}: made of random numbers, which cannot be compared." if random else "",
        accuracy_sentence(verdict),
        verdict.note,
        about if empty else "",
    )
    return [sentence for sentence in said if sentence]
