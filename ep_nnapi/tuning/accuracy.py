"""The fewest nodes to leave on the CPU so that outputs stay within a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ep_nnapi.diagnostics.cluster_errors import cluster_errors
from ep_nnapi.options.table import parse
from ep_nnapi.tuning.candidates import Candidate, without_nodes
from ep_nnapi.tuning.trial import Subject

Group: TypeAlias = tuple[str, ...]
"""Names of nodes that are taken or left together: one node, or the members of a QDQ group."""


def nodes_to_leave(subject: Subject, candidate: Candidate) -> tuple[str, ...]:
    """Returns names of nodes without which the candidate is within the tolerance.

    The nodes with the largest errors, each by itself and from the CPU provider's values, come
    first. No node of the result can be taken as well without exceeding the tolerance.
    """
    single = replace(parse(candidate.options), max_cluster_nodes=1, min_cluster_nodes=1)
    errors = cluster_errors(subject.model, subject.accuracy, single, subject.tolerance)
    ranked = sorted(errors, key=lambda c: -c.verdict.worst)

    def within(groups: Sequence[Group]) -> bool:
        names = tuple(name for group in groups for name in group)
        tried = without_nodes(candidate, names)
        return subject.within(subject.judged(subject.outputs(tried), tried.options))

    groups = fewest([c.report.nodes for c in ranked], within)
    return tuple(name for group in groups for name in group)


def fewest(ranked: Sequence[Group], within: Callable[[Sequence[Group]], bool]) -> list[Group]:
    """Returns a set of groups with `within` true, from which no group can be dropped.

    ranked   all groups, the most likely first; `within` is true for all of them
    Bisects for the shortest beginning of the ranking that is enough, then drops what it does not
    need.
    """
    few, enough = 0, len(ranked)  # not enough, and enough
    while enough - few > 1:
        middle = (few + enough) // 2
        if within(ranked[:middle]):
            enough = middle
        else:
            few = middle
    left = list(ranked[:enough])
    for group in reversed(ranked[: enough - 1]):  # the last one is needed, as bisection found
        rest = [g for g in left if g != group]
        if within(rest):
            left = rest
    return left
