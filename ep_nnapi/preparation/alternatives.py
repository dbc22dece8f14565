"""The alternatives of compiled clusters: programs for other feature levels, LiteRT and the CPU."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import networkx as nx
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper

from ep_nnapi.diagnostics.check import partitioned_at
from ep_nnapi.epcontext.alternatives import (
    Alternative,
    Linked,
    constants,
    everything,
    plain_crossing,
)
from ep_nnapi.epcontext.layout import AlternativeKind, aligned
from ep_nnapi.epcontext.onnx_program import INSIDE, onnx_program
from ep_nnapi.graph.onnx_io import graphs, replace_all, static_sizes
from ep_nnapi.graph.value import DType
from ep_nnapi.litert.package import is_installed, require_installed
from ep_nnapi.litert.to_tflite import FlatPort, convert_split
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError, module_logger
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.options.table import Options
from ep_nnapi.ort_devices.graph import Inexpressible
from ep_nnapi.provider.compiled_cluster import CompiledCluster

logger = module_logger(__name__)
AUTO = "auto"
LITERT, CPU = "litert", "cpu"
_OWN_PART, _OWN_BYTES = 0.01, 256
"""Levels below the highest add constants of at most this part of its own, or so many bytes."""
_NNAPI = re.compile(r"nnapi:([1-8])")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The alternatives that a container is to have.

    levels   of NNAPI, the highest first
    """

    levels: tuple[int, ...]
    litert: bool
    cpu: bool


def wanted_of(names: Sequence[str], level: int) -> Wanted:
    """Returns what `nnapi:LEVEL`, `litert`, `cpu` and `auto` say; raises OptionError.

    level   the highest that `auto` has: it is that, all below it and the CPU, and LiteRT where its
            package is installed
    """
    unknown = [n for n in names if n not in (AUTO, LITERT, CPU) and not _NNAPI.fullmatch(n)]
    if unknown or not names:
        raise OptionError(
            f"alternatives has {', '.join(unknown) or 'nothing'}; give some of nnapi:1 to nnapi:8, "
            "litert and cpu, or auto"
        )
    if LITERT in names:
        require_installed()
    auto = AUTO in names
    levels = {int(n.partition(":")[2]) for n in names if _NNAPI.fullmatch(n)}
    if auto:
        levels |= set(range(1, level + 1))
    litert = LITERT in names or (auto and is_installed())
    return Wanted(tuple(sorted(levels, reverse=True)), litert, auto or CPU in names)


def alternatives_in(
    lowered: Lowered, nodes: ClusterNodes, wanted: Wanted, options: Options, scratch: Path
) -> tuple[Alternative, ...]:
    """Returns the alternatives of a cluster: NNAPI's from the highest level down, LiteRT, the CPU.

    lowered   the cluster at the highest level
    scratch   file that a model may be written to, beside the external data of `nodes`
    Levels whose program is that of a higher one have none of their own; neither have those at which
    NNAPI takes nothing, and LiteRT if it lacks an operation, which is logged.
    """
    border = _plain(lowered.border)
    found: list[Alternative] = []
    if wanted.levels:
        found.append(Alternative.nnapi(lowered))
    for level in wanted.levels[1:]:
        if level < found[-1].needed:
            other = _at_level(level, nodes, border, options, scratch, found)
            if other is not None and other.needed < found[-1].needed:
                found.append(other)
    if wanted.litert:
        found.extend(_litert(lowered, nodes.names[0]))
    if wanted.cpu:
        constants = _constants(found)
        model = nodes.model(nodes.names, border)
        found.append(onnx_program(CPU, model, border, constants, str(scratch.parent)))
    if not found:
        raise ModelError("LiteRT takes none of the alternatives; name cpu or a level of nnapi too")
    return tuple(found)


def _plain(border: Border) -> Border:
    """The border of an alternative that takes the cluster's ONNX tensors as they are."""
    sides = border.inputs, border.outputs
    tensors = ({c.name: (c.name, c.dtype, c.shape) for c in side}.values() for side in sides)
    ins, outs = (tuple(plain_crossing(*t, n) for n, t in enumerate(side)) for side in tensors)
    return Border(ins, outs)


def _constants(found: Sequence[Alternative]) -> list[Array]:
    """The constants of alternatives, as bytes, each once."""
    held = {id(constant): constant for each in everything(found) for constant in constants(each)}
    return list(held.values())


def _litert(lowered: Lowered, called: str) -> Iterator[Alternative]:
    border = lowered.border
    try:
        split = convert_split(lowered.model, flat_ports(border.inputs), flat_ports(border.outputs))
    except (Inexpressible, ShapeError) as reason:
        logger.warning("no LiteRT alternative of %s: %s", called, reason)
        return

    def link(offsets: Sequence[int]) -> bytes:
        return bytes(split.placed([aligned(len(split.data)) + offset for offset in offsets]))

    linked = Linked(tuple(w.bytes for w in split.weights), link)
    yield Alternative(LITERT, AlternativeKind.LITERT, _plain(border), linked=linked)


def flat_ports(crossings: Sequence[Crossing]) -> list[FlatPort]:
    """Returns the ports of a flatbuffer with these tensors."""
    return [FlatPort(c.name, c.dtype.numpy, c.shape, c.operand, c.perm) for c in crossings]


class ClusterNodes:
    """Some nodes of a model with unique names, in their order.

    renamed   new names of some tensors
    """

    def __init__(
        self, proto: ModelProto, names: Collection[str], renamed: Mapping[str, str] = {}
    ) -> None:
        every = tuple(graphs(proto.graph))
        self.proto, wanted = proto, set(names)
        self.initializers = {t.name: t for g in every for t in g.initializer}
        nodes = (n for g in every for n in g.node if n.name in wanted)
        self.nodes = [_with_names(node, renamed) if renamed else node for node in nodes]
        self.names = tuple(n.name for n in self.nodes)

    def model(self, names: Collection[str], border: Border) -> ModelProto:
        """Those of these names as a model of their own."""
        wanted = set(names)
        nodes = [n for n in self.nodes if n.name in wanted]
        read = dict.fromkeys(name for n in nodes for name in n.input)
        inside = [self.initializers[name] for name in read if name in self.initializers]
        entering, leaving = map(info_of, border.inputs), map(info_of, border.outputs)
        graph = helper.make_graph(nodes, "cluster", [*entering], [*leaving], inside)
        model = helper.make_model(graph, opset_imports=self.proto.opset_import)
        model.ir_version = min(self.proto.ir_version, 10)
        return model


def _with_names(node: NodeProto, renamed: Mapping[str, str]) -> NodeProto:
    """A copy of a node, with other names of tensors, also where its subgraphs read them."""
    made = deepcopy(node)
    made.input[:] = [renamed.get(name, name) for name in node.input]
    made.output[:] = [renamed.get(name, name) for name in node.output]
    for attribute in made.attribute:
        inside = (g for g in (attribute.g, *attribute.graphs) if g.node)
        for graph in inside:
            replace_all(graph.node, [_with_names(each, renamed) for each in graph.node])
            for output in graph.output:
                output.name = renamed.get(output.name, output.name)
    return made


def info_of(crossing: Crossing) -> onnx.ValueInfoProto:
    """Returns name, type and sizes of a tensor at the border of a cluster."""
    return helper.make_tensor_value_info(crossing.name, int(crossing.dtype), crossing.shape)


def _at_level(
    level: int,
    nodes: ClusterNodes,
    border: Border,
    options: Options,
    scratch: Path,
    found: Sequence[Alternative],
) -> Alternative | None:
    """The cluster's nodes at a feature level: a program or a partition; None without NNAPI."""
    model, known = nodes.model(nodes.names, border), _constants(found)
    onnx.save(model, str(scratch))
    at = replace(options, feature_level=level)
    clusters = _compiled(scratch, at)
    costly = _costly(clusters, found)
    if costly:
        clusters = _compiled(scratch, replace(at, exclude=(*at.exclude, *costly)))
    if not clusters:
        return None
    if set(clusters[0].report.nodes) == set(nodes.names):
        return Alternative.nnapi(clusters[0].lowered)
    tensors = _tensors(model, border, clusters)
    parts = []
    for members, cluster in _in_turn(nodes.nodes, clusters):
        if cluster is not None:
            parts.append(Alternative.nnapi(cluster.lowered))
            continue
        own = _border_of(members, nodes.nodes, border, tensors)
        if own is None:
            return None
        names = [node.name for node in members]
        there = [*known, *_constants(parts)]
        rest = nodes.model(names, own)
        parts.append(onnx_program(CPU, rest, own, there, str(scratch.parent)))
    needed = max(part.needed for part in parts)
    kind = AlternativeKind.PARTITION
    return Alternative(f"nnapi:{needed}", kind, border, parts=tuple(parts))


def _compiled(model: Path, options: Options) -> list[CompiledCluster]:
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    provider = partitioned_at(str(model), options, level, written=True)
    return [c for c in provider.clusters if isinstance(c, CompiledCluster)]


def _costly(clusters: Sequence[CompiledCluster], found: Sequence[Alternative]) -> set[str]:
    """The nodes with the largest constants of their own, without which the others add few bytes.

    found   alternatives of all levels above this one, the highest first
    Constants of 8 bits are not counted: other levels have them with another sign.
    """
    there = {_digest(c): c.size for c in _constants(found[:1])}
    highest = sum(there.values())
    there |= {_digest(c): c.size for c in _constants(found[1:])}
    own: dict[bytes, tuple[int, set[str]]] = {}
    for model in (cluster.lowered.model for cluster in clusters):
        for operation, index in ((op, i) for op in model.operations for i in op.inputs):
            operand = model.operands[index]
            if isinstance(operand.value, Data) and operand.type.numpy.itemsize > 1:
                held = operand.value.bytes
                if held.size > INSIDE and (key := _digest(held)) not in there:
                    own.setdefault(key, (held.size, set()))[1].update(operation.origin)
    left = highest + max(_OWN_BYTES, _OWN_PART * highest) - sum(there.values())
    costly = set[str]()
    for size, nodes in sorted(own.values(), key=lambda each: each[0]):
        left -= size
        if left < 0:
            costly |= nodes
    return costly


def _digest(constant: Array) -> bytes:
    return sha256(constant.data).digest()


def _tensors(
    model: ModelProto, border: Border, clusters: Sequence[CompiledCluster]
) -> dict[str, tuple[DType, tuple[int, ...]]]:
    """Element types and sizes of tensors at borders, and of others as ONNX infers them."""
    found = {}
    for info in onnx.shape_inference.infer_shapes(model).graph.value_info:
        shape = static_sizes(info)
        if shape is not None:
            found[info.name] = DType(info.type.tensor_type.elem_type), shape
    for each in (border, *(c.lowered.border for c in clusters)):
        found |= {c.name: (c.dtype, c.shape) for c in (*each.inputs, *each.outputs)}
    return found


def _in_turn(
    nodes: Sequence[NodeProto], clusters: Sequence[CompiledCluster]
) -> Iterator[tuple[list[NodeProto], CompiledCluster | None]]:
    """Yields clusters, and the other nodes in as few groups as their order allows."""
    home = {name: i for i, c in enumerate(clusters) for name in c.report.nodes}
    unit = {node.name: home.get(node.name, len(clusters) + n) for n, node in enumerate(nodes)}
    writer = {name: unit[node.name] for node in nodes for name in node.output if name}
    order = nx.DiGraph()
    order.add_nodes_from(unit.values())
    for node in nodes:
        before = {writer[name] for name in node.input if name in writer} - {unit[node.name]}
        order.add_edges_from((u, unit[node.name]) for u in before)
    while order:
        ready = sorted(u for u, degree in order.in_degree if not degree)
        first = ready[0]
        if first < len(clusters):
            order.remove_node(first)
            yield [n for n in nodes if unit[n.name] == first], clusters[first]
            continue
        group: set[int] = set()
        while ready and ready[-1] >= len(clusters):
            group.update(u for u in ready if u >= len(clusters))
            order.remove_nodes_from(group)
            ready = sorted(u for u, degree in order.in_degree if not degree)
        yield [n for n in nodes if unit[n.name] in group], None


def _border_of(
    members: Sequence[NodeProto],
    nodes: Sequence[NodeProto],
    border: Border,
    tensors: Mapping[str, tuple[DType, tuple[int, ...]]],
) -> Border | None:
    """The border of some of the nodes; None if the sizes of a tensor in it are not known."""
    inside = {node.name for node in members}
    written = dict.fromkeys(name for node in members for name in node.output if name)
    others = {name for n in nodes if n.name not in inside for name in n.input}
    others |= {c.name for c in border.outputs}
    computed = {name for node in nodes for name in node.output} | {c.name for c in border.inputs}
    read = dict.fromkeys(name for node in members for name in node.input)
    entering = [name for name in read if name in computed and name not in written]
    leaving = [name for name in written if name in others]
    if not all(name in tensors for name in (*entering, *leaving)):
        return None
    ins, outs = (
        tuple(plain_crossing(name, *tensors[name], n) for n, name in enumerate(side))
        for side in (entering, leaving)
    )
    return Border(ins, outs)


def highest_level(names: Sequence[str], options: Options) -> Options:
    """The options with the highest level that is named: the division is made at that.

    Raises OptionError if another level is given too.
    """
    levels = [int(n.partition(":")[2]) for n in names if _NNAPI.fullmatch(n)]
    if not levels or AUTO in names:
        return options
    if options.feature_level not in (None, max(levels)):
        raise OptionError(
            f"feature_level is {options.feature_level}, and the highest of alternatives is "
            f"nnapi:{max(levels)}, at which clusters are made; give one of them"
        )
    return replace(options, feature_level=max(levels))
