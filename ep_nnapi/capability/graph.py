"""Capability analysis of a graph: lowers every node, for sample sizes if shapes are symbolic."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ep_nnapi.capability.node import CapableNode, defect, judge
from ep_nnapi.epcontext.layout import is_own
from ep_nnapi.errors import TRIED, Note, Rejection
from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import NO_ATTRIBUTES, Graph, GraphNode
from ep_nnapi.nnapi.errors import OptionError, Reason, module_logger
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.options.fixed import sets_of, sizes_in
from ep_nnapi.options.table import Options
from ep_nnapi.options.target import RuleSet, Target
from ep_nnapi.options.values import DynamicShapes
from ep_nnapi.quantization.propagate import propagate_quantization
from ep_nnapi.sizes.bind import graph_inputs, infer_missing_shapes, is_dynamic, mark_data_dependent
from ep_nnapi.sizes.int64_ranges import mark_int32_ranges, suppose_ranges
from ep_nnapi.sizes.symbols import Shapes, present
from ep_nnapi.sizes.untrusted import drop_untrusted_shapes, unverified_tensors


@dataclass(slots=True)
class Capability:
    """Capable nodes, and rejections of the others, to which `drop` moves nodes.

    graph     the graph with QDQ groups as nodes, each accepted or rejected as a whole
    nodes     its nodes by id
    samples   for each set of sample sizes, the capable nodes by id; all have the same ids
    rejected  by node id, a rejection for each original node that the node represents
    unverified  tensors whose computed shapes may differ from the declared ones
    """

    graph: Graph
    nodes: dict[int, GraphNode]
    samples: tuple[dict[int, CapableNode], ...]
    rejected: dict[int, tuple[Rejection, ...]]
    unverified: frozenset[str] = frozenset()

    def drop(
        self, cluster: Sequence[int], names: Collection[str], reason: Reason, detail: str
    ) -> None:
        """Rejects the nodes of a cluster with one of `names`; all its nodes if none match."""
        named = [i for i in cluster if set(names) & {p.name for p in self.nodes[i].originals}]
        for i in named or cluster:
            for sample in self.samples:
                del sample[i]
            self.rejected[i] = tuple(
                Rejection(p.name, p.op_type, reason, detail) for p in self.nodes[i].originals
            )

    def notes(self, more: Mapping[int, str]) -> tuple[Note, ...]:
        """Notes on the capable nodes, in graph order; `more`: texts on nodes without one, by id."""
        found = self.samples[0]
        named = (found[n.id] for n in self.graph.nodes if n.id in found)
        texts = ((j.node, j.note or more.get(j.node.id, "")) for j in named)
        return tuple(Note(n.name, n.op_type, text, kind(text, n)) for n, text in texts if text)

    def rejections(self) -> tuple[Rejection, ...]:
        """All rejections, in graph order."""
        return tuple(with_root_causes(self.graph, self.rejected))


_Sampled: TypeAlias = tuple[Graph, Sequence[Graph]]
"""A graph, and a copy of it for each set of sample sizes, or itself if there are none."""


def _prepared(graph: Graph, target: Target, options: Options) -> _Sampled:
    """The graph and its samples after the passes that precede the check of their nodes."""
    graph = _before_sizes(graph, target)
    with _named("bind sample sizes"):
        graph, samples = _bind_samples(graph, target, options)
    return graph, [s if s is graph else _with_sizes(s) for s in samples]


def _before_sizes(graph: Graph, target: Target) -> Graph:
    graph = _passed(
        graph,
        ("drop untrusted shapes", drop_untrusted_shapes),
        ("propagate quantization", propagate_quantization),
    )
    if target.checks_numbers:
        graph = _passed(graph, ("suppose ranges", suppose_ranges))
    return _passed(graph, ("mark INT32 ranges", mark_int32_ranges))


def _with_sizes(sample: Graph) -> Graph:
    return _passed(
        sample,
        ("mark INT32 ranges of samples", mark_int32_ranges),
        ("mark data-dependent shapes", mark_data_dependent),
    )


def _passed(graph: Graph, *passes: tuple[str, Callable[[Graph], Graph]]) -> Graph:
    for name, run in passes:
        with _named(name):
            graph = run(graph)
    return graph


def judge_traced(
    graph: Graph,
    target: Target,
    options: Options,
    bind: Callable[[Graph], Graph],
    trace: Trace,
) -> Capability | None:
    """Returns the verdicts on a graph with the sizes of `bind`, whose conditions the trace has.

    Nodes that are rejected leave no conditions. Returns None if one is rejected for its shapes,
    which may be those of the sizes only. Raises what the passes over a graph raise.
    """
    graph = _before_sizes(graph, target)
    sample = _with_sizes(bind(graph))
    stopped = _from_stop_ops(graph, options.partitioning_stop_ops)
    verdicts = Capability(graph, {}, ({},), {}, unverified_tensors(graph))
    for node, sized in zip(graph.nodes, sample.nodes, strict=True):
        verdicts.nodes[node.id] = node
        before = trace.state
        found = _excluded(sized, options, stopped) or judge(sized, target, trace=trace)
        if isinstance(found, Rejection):
            if found.reason is Reason.SHAPE:
                return None
            trace.restore(before)
        _record(verdicts, node, [found])
    return verdicts


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Context manager in which an exception gets the name of the pass as a note."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the pass over the graph: {name}")
        raise


def judge_graph(
    graph: Graph, target: Target, options: Options, progress: Progress | None = None
) -> Capability:
    """Checks the capability of the nodes of `graph`.

    With symbolic dimensions, a node is capable only if it has a lowering for every set of sample
    sizes. Raises OptionError if sizes of option `fix` do not fit the graph that has their names.
    """
    progress = progress or Progress()
    given = {node.id: node for node in graph.nodes}
    prepared, defects = isolate_defects(graph, lambda g: _prepared(g, target, options))
    graph, samples = prepared
    verdicts = Capability(graph, {}, tuple({} for _ in samples), {}, unverified_tensors(graph))
    stopped = _from_stop_ops(graph, options.partitioning_stop_ops)
    together = zip(graph.nodes, *(s.nodes for s in samples), strict=True)
    for done, (node, *sampled) in enumerate(together):
        progress("nodes checked", done, len(graph.nodes))
        verdicts.nodes[node.id] = node
        if is_own(given[node.id]):
            continue  # an EPContext node of this provider is already compiled
        if node.id in defects:
            verdicts.rejected[node.id] = (defect(given[node.id], defects[node.id]),)
            continue
        found = [_excluded(node, options, stopped) or _judge_by_rules(n, target) for n in sampled]
        _record(verdicts, node, _with_tried_sizes(node, sampled, found))
    return verdicts


def _with_tried_sizes(
    node: GraphNode, samples: Sequence[GraphNode], found: Sequence[CapableNode | Rejection]
) -> list[CapableNode | Rejection]:
    """The results for a node, one per sample; SHAPE rejections say that sizes were only tried."""
    if len(samples) == 1 or not is_dynamic(inputs_of(node)):
        return list(found)
    produced = any(v.shape_producer for n in samples for v in (*inputs_of(n), *outputs_of(n)))
    return [
        replace(f, detail=f.detail + TRIED, kind=f.kind and f.kind + TRIED)
        if not produced and isinstance(f, Rejection) and f.reason is Reason.SHAPE
        else f
        for f in found
    ]


def _record(
    verdicts: Capability, node: GraphNode, found: Sequence[CapableNode | Rejection]
) -> None:
    """Adds the results for a node, one per sample; a single rejection rejects the node."""
    rejection = next((f for f in found if isinstance(f, Rejection)), None)
    if rejection is not None:
        verdicts.rejected[node.id] = tuple(_member_rejections(node, rejection))
        return
    for sample, verdict in zip(verdicts.samples, found, strict=True):
        if isinstance(verdict, CapableNode):
            sample[node.id] = verdict


def _member_rejections(node: GraphNode, rejection: Rejection) -> Iterator[Rejection]:
    """Yields a rejection for each original node that a rejected node represents."""
    for part in node.originals:
        if part.id == node.id:
            same = (part.name, part.op_type) == (rejection.node, rejection.op_type)
            yield rejection if same else replace(rejection, node=part.name, op_type=part.op_type)
        else:
            detail = f"in the QDQ group of {node.name}, which is rejected: {rejection.detail}"
            yield Rejection(part.name, part.op_type, rejection.reason, detail, caused_by=node.name)


def _bind_samples(graph: Graph, target: Target, options: Options) -> _Sampled:
    """Binds the graph to sample sizes if it has unknown dimensions and these are allowed.

    Under the built-in provider's rules, data-dependent shapes get no sample sizes, as it does not
    support nodes that read them.
    """
    specialize = options.dynamic_shapes is DynamicShapes.SPECIALIZE
    assume = specialize and target.rules is not RuleSet.BUILTIN
    if is_dynamic(graph_inputs(graph)):
        fixed = present(graph_inputs(graph), sizes_in(options.fix))
        if not specialize and not fixed:
            return graph, (graph,)
        used = present(graph_inputs(graph), dict(options.sizes)) if specialize else {}
        shapes = [{**fixed, **each} for each in _spread([*sets_of(tuple(used.items()))])]
        samples = [_samples(graph, each, assume=assume) for each in shapes]
        return graph, [s[0] for s in samples] if used else samples[0]
    if not is_dynamic(v for n in graph.nodes for part in n.originals for v in outputs_of(part)):
        return graph, (graph,)
    whole = infer_missing_shapes(graph)
    return whole, _samples(whole, {}, assume=assume)


_MOST_SETS = 4


def _spread(sets: Sequence[Shapes]) -> list[Shapes]:
    """The largest and the smallest of sets in ascending order, and some between, largest first.

    A size of 1 is a number in what the first one is lowered to.
    """
    last = len(sets) - 1
    chosen = {last - last * i // (_MOST_SETS - 1): None for i in range(_MOST_SETS)}
    return [sets[i] for i in chosen]


def _samples(graph: Graph, fixed: Shapes, *, assume: bool) -> list[Graph]:
    from ep_nnapi.sizes.trial_sizes import sample_graphs  # most graphs have no unknown sizes

    return sample_graphs(graph, fixed, assume=assume)


def _judge_by_rules(node: GraphNode, target: Target) -> CapableNode | Rejection:
    own = judge(node, target)
    if target.rules is not RuleSet.BUILTIN:
        return own
    from ep_nnapi.capability.builtin import builtin_rejection  # these rules are rarely asked

    seen = node.parts[0] if len(node.parts) == 1 else node
    try:
        rejection = builtin_rejection(seen, target)
    except Exception as error:
        return defect(node, error)
    if rejection is None or not isinstance(own, CapableNode):
        return rejection or own
    return replace(rejection, accepted_by=RuleSet.EP_NNAPI)


def _excluded(node: GraphNode, options: Options, stopped: Set[int]) -> Rejection | None:
    """The rejection of a node that another provider has, or that the options exclude."""
    reason = Reason.EXCLUDED
    if node.claimed_by:
        reason, detail = Reason.CLAIMED, f"already assigned to {node.claimed_by}"
    elif any(p.name in options.exclude or p.op_type in options.exclude for p in node.originals):
        detail = "excluded by the option exclude"
    elif stopped and stopped & {p.id for p in node.originals}:
        detail = "excluded by the option partitioning_stop_ops: it is or depends on one of them"
    else:
        return None
    return Rejection(node.name, node.op_type, reason, detail)


def _from_stop_ops(graph: Graph, op_types: Collection[str]) -> Set[int]:
    """The ids of the nodes of these types and of all nodes that depend on them."""
    found: set[int] = set()
    tainted: set[str] = set()
    for node in graph.nodes if op_types else ():
        reads = {*(v.name for v in inputs_of(node)), *node.implicit}
        if any(p.op_type in op_types for p in node.originals) or reads & tainted:
            found.update(p.id for p in node.originals)
            tainted.update(v.name for v in outputs_of(node))
    return found


_PUNCTUATION = ",;:."


def with_root_causes(
    graph: Graph, rejected: Mapping[int, tuple[Rejection, ...]]
) -> Iterator[Rejection]:
    """Yields the rejections in graph order, with the first node each follows from, and its kind."""
    roots: dict[str, str] = {}
    computed: dict[tuple[Reason, str], str] = {}
    for node in graph.nodes:
        for part, rejection in zip(node.originals, rejected.get(node.id, ()), strict=False):
            reason = rejection.reason
            words = [word.strip(_PUNCTUATION) for word in rejection.detail.split(" ")]
            found = [w for w in words if w in roots or (reason, w) in computed]
            named = (roots.get(w) or computed.get((reason, w)) for w in found)
            caused_by = rejection.caused_by or next(
                (n for n in named if n and n != rejection.node), ""
            )
            root = roots[rejection.node] = caused_by or rejection.node
            for value in outputs_of(part):
                computed[reason, value.name] = root
            yield replace(rejection, caused_by=caused_by, kind=kind(rejection.detail, part))


def kind(text: str, node: GraphNode) -> str:
    """The text with the names of the node and its tensors as *, so that nodes can be grouped."""
    names = {node.name, *(v.name for p in node.originals for v in (*inputs_of(p), *outputs_of(p)))}
    return " ".join("*" if w.strip(_PUNCTUATION) in names else w for w in text.split(" "))


logger = module_logger(__name__)
Timer: TypeAlias = Callable[[], float]
"""Function that returns seconds since a fixed point in time."""

LOG_INTERVAL = 3.0
"""Minimum seconds between log lines, and before the first."""
WARN_AFTER = 10.0
"""Seconds until a warning, for users who do not see the INFO lines."""


class Progress:
    """Logs the progress of planning: a line every few seconds at INFO, and one warning."""

    def __init__(self, clock: Timer = time.monotonic) -> None:
        self._clock = clock
        self._began = self._logged = clock()
        self._warned = False

    def __call__(self, what: str, done: int, of: int) -> None:
        """Logs that `done` of `of` items are `what`, at most once every `LOG_INTERVAL` seconds.

        Warns once, after `WARN_AFTER` seconds.
        """
        now = self._clock()
        if now - self._logged >= LOG_INTERVAL:
            self._logged = now
            logger.info("planning: %d of %d %s", done, of, what)
        if now - self._began >= WARN_AFTER and not self._warned:
            self._warned = True
            logger.warning(
                "planning has taken %.0f s so far: %d of %d %s; Ctrl-C ends it",
                now - self._began,
                done,
                of,
                what,
            )


T = TypeVar("T")

_MAX_ISOLATED = 8
"""Maximum nodes isolated one by one: each takes a bisection that repeats the step."""


def isolate_defects(graph: Graph, step: Callable[[Graph], T]) -> tuple[T, Mapping[int, Exception]]:
    """Runs `step` on `graph`, with the nodes on which it fails hidden.

    Returns its result, and the hidden nodes by id, each with its exception.
    A hidden node keeps its id, name and tensors; its operator is replaced by an unknown one. If
    hiding single nodes does not help, all are hidden. Raises OptionError, as a user error, and any
    exception of `step` with all nodes hidden.
    """
    defects: dict[int, Exception] = {}
    while True:
        nodes = (_hidden(n) if n.id in defects else n for n in graph.nodes)
        seen = replace(graph, nodes=tuple(nodes)) if defects else graph
        try:
            return step(seen), defects
        except OptionError:
            raise
        except Exception as error:
            if len(defects) == len(graph.nodes):
                raise
            culprit = _culprit(seen, step)
            if len(defects) == _MAX_ISOLATED or culprit.id in defects:
                logger.warning(
                    "the analysis fails on many nodes of a graph; all are left to the CPU"
                )
                defects = {**{n.id: error for n in graph.nodes}, **defects}
                continue
            defects[culprit.id] = error


def _culprit(graph: Graph, step: Callable[[Graph], T]) -> GraphNode:
    """Bisects for the shortest prefix of the graph on which `step` fails; returns its last node."""
    works, fails = 0, len(graph.nodes)
    while fails - works > 1:
        middle = (works + fails) // 2
        try:
            step(replace(graph, nodes=graph.nodes[:middle]))
        except Exception:  # the same defect, or one due to the cut: either is in this prefix
            fails = middle
        else:
            works = middle
    return graph.nodes[fails - 1]


def _hidden(node: GraphNode) -> GraphNode:
    return replace(node, op_type="Hidden", domain="ep_nnapi.hidden", attributes=NO_ATTRIBUTES)
