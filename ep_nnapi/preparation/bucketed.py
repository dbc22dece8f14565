"""Clusters of symbolic sizes as a compilation for each set of sizes in use, over the same weights.

What is written in a cluster's place chooses by the sizes of its inputs, pads these to the first set
that they fit, and cuts the outputs:

    If (they fit 16) { Pad, EPContext for 16, Slice } else { If (they fit 32) { ... } else { ... } }

Larger sizes reach the compilation for the last set, which refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper

from ep_nnapi.epcontext.contexts import context_attributes
from ep_nnapi.epcontext.layout import CONTEXT_DOMAIN, CONTEXT_OP
from ep_nnapi.graph.value import Dim
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.fixed import sets_of
from ep_nnapi.preparation.alternatives import info_of
from ep_nnapi.provider.buckets import shapes_of, size_of
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.report.report import ClusterReport

OPSET = 13
"""Version of the operators that are written, or a newer one that says the same."""


@dataclass
class _PrefixedNodes:
    """Nodes whose names and results begin with a prefix."""

    prefix: str
    made: list[NodeProto] = field(default_factory=list)

    def add(self, op: str, *inputs: str, to: str = "", **attributes: object) -> str:
        """Adds a node; returns its result, of the name `to`, or a new one."""
        name = f"{self.prefix}.{len(self.made)}"
        node = helper.make_node(op, inputs, [to or name], name)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
        self.made.append(node)
        return to or name

    def numbers(self, values: Sequence[int]) -> str:
        """Adds a constant of int64."""
        return self.add("Constant", value=numpy_helper.from_array(np.array(values, np.int64)))


@dataclass(frozen=True, slots=True)
class BucketedCluster:
    """A cluster lowered for each set of sizes in use, the smallest first.

    name     prefix of the names of what is written
    sets     the size of each symbol
    lowered  the cluster for each
    """

    name: str
    cluster: DynamicCluster
    sets: tuple[Mapping[str, int], ...]
    lowered: tuple[Lowered, ...]

    @staticmethod
    def of(cluster: DynamicCluster, name: str) -> BucketedCluster:
        """Lowers a cluster for each set.

        Raises ModelError unless all its sizes are in use and padding changes no output.
        """
        called, buckets = f"the cluster that begins with {cluster.report.nodes[0]}", cluster.buckets
        known = {} if buckets is None else {d: sizes[0] for d, sizes in buckets.sizes.items()}
        entering = [d for v in cluster.inputs for d in v.dims or (None,) if not size_of(d, known)]
        leaving = [d for v in cluster.outputs for d in v.dims or (None,)]
        free = [*entering, *(d for d in leaving if not isinstance(d, int) and d not in known)]
        if buckets is None or free:
            which = ", ".join(dict.fromkeys(str(d or "one without a name") for d in free))
            way = "give each a name in the model" if None in free else "name them with --sizes"
            raise ModelError(
                f"{called} has sizes that are not in use ({which}): {way}, or fix them with --fix"
            )
        sets = [{d: n for d, (n,) in s.items()} for s in sets_of((*buckets.sizes.items(),))]
        lowered = []
        for number, sizes in enumerate(sets):
            fewer = {d: max(1, size - 1) for d, size in sizes.items()}
            why = buckets.refusal(cluster.cpu_model().run, shapes_of(cluster.inputs, fewer))
            if why:
                raise ModelError(f"{called} is not padded to sizes in use: {why}")
            try:
                made = cluster.lower(shapes_of(cluster.inputs, sizes))
            except Declined as declined:
                raise ModelError(f"{called} at {dict(sizes)}: {declined.detail}") from None
            lowered.append(_renamed(made, f"{name}/{number}"))
        return BucketedCluster(name, cluster, tuple(sets), tuple(lowered))

    @property
    def report(self) -> ClusterReport:
        """The report on the cluster."""
        return self.cluster.report

    def renamed(self, number: int) -> dict[str, str]:
        """Returns the names that its inputs and outputs have in a set, by their own."""
        ends = (*self.cluster.inputs, *self.cluster.outputs)
        return {v.name: _called(v.name, f"{self.name}/{number}") for v in ends}

    def nodes(self, contexts: Sequence[bytes]) -> list[NodeProto]:
        """Returns the nodes that compute the cluster; `contexts` are of its sets."""
        made = _PrefixedNodes(self.name)
        sizes = {v.name: made.add("Shape", v.name) for v in self.cluster.inputs}
        symbols: dict[Dim, str] = {}
        for value in self.cluster.inputs:
            for axis, dim in enumerate(value.dims or ()):
                if dim in self.sets[0] and dim not in symbols:
                    symbols[dim] = made.add("Gather", sizes[value.name], made.numbers([axis]))
        ends = [v.name for v in self.cluster.outputs]
        nodes = self._level(0, ends, _Sizes(sizes, symbols), contexts)
        return [*made.made, *nodes]

    def _level(
        self, number: int, ends: Sequence[str], sizes: _Sizes, contexts: Sequence[bytes]
    ) -> list[NodeProto]:
        """Returns the nodes that choose this set or a later one; `ends`: names of the outputs."""
        if number == len(self.sets) - 1:
            return self._padded(number, ends, sizes, contexts[number])
        made = _PrefixedNodes(f"{self.name}/{number}?")
        fits = [
            made.add("LessOrEqual", sizes.symbols[d], made.numbers([most]))
            for d, most in self.sets[number].items()
        ]
        every = fits[0]
        for one in fits[1:]:
            every = made.add("And", every, one)
        inner = [[f"{end}/{number}{side}" for end in ends] for side in ("", "+")]
        branches = (
            self._padded(number, inner[0], sizes, contexts[number]),
            self._level(number + 1, inner[1], sizes, contexts),
        )
        graphs = [self._graph(*each) for each in zip(branches, inner, strict=True)]
        name = f"{self.name}/{number}"
        choice = helper.make_node(
            "If", [every], ends, name, then_branch=graphs[0], else_branch=graphs[1]
        )
        return [*made.made, choice]

    def _padded(
        self, number: int, ends: Sequence[str], sizes: _Sizes, context: bytes
    ) -> list[NodeProto]:
        """Returns the nodes that pad inputs to a set, compute and cut."""
        name = f"{self.name}/{number}"
        made, inputs = _PrefixedNodes(name), self.cluster.inputs
        for value in inputs:
            whole = shapes_of([value], self.sets[number])[value.name]
            missing = made.add("Sub", made.numbers(whole), sizes.shapes[value.name])
            after = made.add("Max", missing, made.numbers([0]))  # larger ones are refused below
            pads = made.add("Concat", made.numbers([0] * len(whole)), after, axis=0)
            made.add("Pad", value.name, pads, to=_called(value.name, name))
        outputs = [_called(v.name, name) for v in self.cluster.outputs]
        made.made.append(
            context_node(
                context, self.report, name, [_called(v.name, name) for v in inputs], outputs
            )
        )
        for whole_output, end, value in zip(outputs, ends, self.cluster.outputs, strict=True):
            cut = [(axis, d) for axis, d in enumerate(value.dims or ()) if d in sizes.symbols]
            if not cut:
                made.add("Identity", whole_output, to=end)
                continue
            stops = made.add("Concat", *(sizes.symbols[d] for _, d in cut), axis=0)
            starts, axes = made.numbers([0] * len(cut)), made.numbers([axis for axis, _ in cut])
            made.add("Slice", whole_output, starts, stops, axes, to=end)
        return made.made

    def _graph(self, nodes: Sequence[NodeProto], ends: Sequence[str]) -> GraphProto:
        types = [int(v.dtype) for v in self.cluster.outputs]
        infos = [
            helper.make_tensor_value_info(n, t, None) for n, t in zip(ends, types, strict=True)
        ]
        known = self.results(nodes)
        return helper.make_graph(nodes, self.name, [], infos, value_info=known)

    def results(self, nodes: Sequence[NodeProto]) -> list[ValueInfoProto]:
        """Returns types and sizes of what compilations among these nodes compute."""
        made = {name for node in nodes if node.op_type == CONTEXT_OP for name in node.output}
        crossings = (c for lowered in self.lowered for c in lowered.border.outputs)
        return [info_of(c) for c in crossings if c.name in made]


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Names of tensors: the shapes of the inputs, and the size of each symbol."""

    shapes: Mapping[str, str]
    symbols: Mapping[Dim, str]


def context_node(
    context: bytes, of: ClusterReport, name: str, inputs: Sequence[str], outputs: Sequence[str]
) -> NodeProto:
    """Returns the node of a compiled cluster."""
    node = helper.make_node(CONTEXT_OP, inputs, outputs, name, domain=CONTEXT_DOMAIN)
    attributes = context_attributes(context, name, of.nodes)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    return node


def _called(tensor: str, place: str) -> str:
    return f"{tensor}/{place}"


def _renamed(lowered: Lowered, place: str) -> Lowered:
    """The lowered cluster with the names that its tensors have at its place in the graph."""
    ends = (lowered.border.inputs, lowered.border.outputs)
    ins, outs = (tuple(replace(c, name=_called(c.name, place)) for c in end) for end in ends)
    return replace(lowered, border=replace(lowered.border, inputs=ins, outputs=outs))
