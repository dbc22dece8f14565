"""Writing of models whose clusters are compiled ahead of time into EPContext nodes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path

import networkx as nx
import onnx
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper
from onnx.external_data_helper import load_external_data_for_model

from ep_nnapi.diagnostics.check import partitioned_at
from ep_nnapi.epcontext.alternatives import Alternative
from ep_nnapi.epcontext.container import Container, pack_each
from ep_nnapi.epcontext.contexts import (
    add_placeholder,
    companion_name,
    contexts_of,
    write_checksum,
)
from ep_nnapi.epcontext.layout import (
    CONTEXT_DOMAIN,
    CONTEXT_EP,
    EP_SOURCE,
    FORMAT_VERSION,
)
from ep_nnapi.graph.onnx_io import (
    EXTERNAL_DATA_THRESHOLD,
    edited,
    graphs,
    make_dense,
    opset_of,
    replace_all,
    temporary,
)
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.runtime import Runtime
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import DynamicShapes
from ep_nnapi.preparation.alternatives import (
    ClusterNodes,
    alternatives_in,
    highest_level,
    info_of,
    wanted_of,
)
from ep_nnapi.preparation.bucketed import OPSET, BucketedCluster, context_node
from ep_nnapi.preparation.job import Job
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.load_epcontext import parse
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import Report


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """How much of a model is compiled ahead of time.

    nodes               ONNX nodes in compiled clusters; the report has the number of all
    weight_bytes        bytes of the model's initializers that these nodes read
    model_weight_bytes  bytes of all of them, after its optimization
    """

    nodes: int
    weight_bytes: int
    model_weight_bytes: int


def save_context(model: Path, out: Path, job: Job) -> tuple[Report, CompiledPart]:
    """Writes `model` with each cluster compiled into an EPContext node.

    model   already optimized; gets unique node names and is otherwise used as it is
    job     embed: weights in the model file; else in a file next to it with its digest in the name,
            so that a replaced model never loads the weights of another; partial: nodes whose shapes
            depend on symbolic sizes of inputs stay as they are; alternatives: of each cluster
    Nodes with data-dependent shapes stay ONNX nodes and are compiled when they run. The report
    includes them, in clusters as a session on `model` would have. Raises ModelError if there is
    nothing to compile, and without `partial` for nodes that depend on symbolic sizes of inputs.
    """
    options = highest_level(job.alternatives, job.options)
    proto, provider, clusters = compilable(model, options)
    bucketed = list(_bucketed(proto, provider, job))
    if bucketed:  # the static ones beside them, not those of a partition without them
        clusters = [c for c in provider.clusters if isinstance(c, CompiledCluster)]
    every: list[CompiledCluster | BucketedCluster] = [*clusters, *bucketed]
    given: list[list[Sequence[Lowered | Alternative]]] = [[[x] for x in _lowered(c)] for c in every]
    if job.alternatives:
        wanted = wanted_of(job.alternatives, provider.target.feature_level)
        with temporary(out, ".alternative.onnx") as scratch:
            made = partial(alternatives_in, wanted=wanted, options=options, scratch=scratch)
            given = [[made(*each) for each in _nodes_at(cluster, proto)] for cluster in every]
    packed = [tuple(pack_each(each, model_has_checksum=True)) for each in given]
    if not every:
        raise ModelError(why_not_compiled(proto, provider.report))
    part = _part_of(proto, every)
    free = [i.name for i in proto.graph.input if _is_symbolic(i)]
    if free and part.nodes < provider.report.taken and not job.partial:
        raise ModelError(
            f"only {part.nodes} of the {provider.report.taken} nodes that NNAPI takes can be "
            f"compiled ahead of time, with {part.weight_bytes:,} bytes of weights (the model "
            f"has {part.model_weight_bytes:,}): sizes depend on {', '.join(free)}; give them with "
            f"--fix {free[0]}=SIZES, or leave the rest to the session with --partial"
        )
    packs = [container for of_cluster in packed for container in of_cluster]
    contexts = contexts_of(packs, None if job.embed else out)
    for i, (cluster, of_cluster) in enumerate(zip(every, packed, strict=True)):
        own = [next(contexts) for _ in of_cluster]
        _replace(proto.graph, cluster, _nodes_of(cluster, f"nnapi_{i}", own))
    _drop_unused(proto)
    _add_metadata(proto, packs, provider.compatibility_info)
    _save(proto, out, model.parent)
    return provider.report, part


def _part_of(
    proto: ModelProto, clusters: Sequence[CompiledCluster | BucketedCluster]
) -> CompiledPart:
    every = tuple(graphs(proto.graph))
    sizes = {
        t.name: prod(t.dims) * helper.tensor_dtype_to_np_dtype(t.data_type).itemsize
        for graph in every
        for t in graph.initializer
    }
    inside = {name for cluster in clusters for name in cluster.report.nodes}
    nodes = [node for graph in every for node in graph.node if node.name in inside]
    read = {name for node in nodes for name in node.input}
    return CompiledPart(
        len(inside), sum(sizes[name] for name in sizes.keys() & read), sum(sizes.values())
    )


def compilable(
    model: Path, options: Options, runtime: Runtime | None = None
) -> tuple[ModelProto, Provider, list[CompiledCluster]]:
    """Returns an optimized model, its partitioning, and the clusters of static shapes.

    Gives the nodes in the file unique names, by which clusters in the report identify them, and
    makes its constants dense.

    runtime   replaces the runtime of the options, as for `partitioned_at`
    """
    with edited(model) as proto:
        _make_names_unique(proto)
        make_dense(proto.graph)
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    provider = partitioned_at(str(model), options, level, runtime, written=True)
    clusters = provider.clusters
    if not all(isinstance(c, CompiledCluster) for c in clusters):
        # partition again: nodes with static shapes must form clusters without the dynamic ones
        static = replace(options, dynamic_shapes=DynamicShapes.OFF)
        clusters = partitioned_at(str(model), static, level, runtime, written=True).clusters
    return proto, provider, [c for c in clusters if isinstance(c, CompiledCluster)]


def why_not_compiled(proto: ModelProto, report: Report) -> str:
    """Returns the reason why there is nothing to compile, and advice."""
    if not report.clusters:
        return (
            "NNAPI takes no node of this model under these options, so there is nothing to "
            "compile; `check` says why, and other formats do without"
        )
    free = [i.name for i in proto.graph.input if _is_symbolic(i)]
    if free:
        return (
            f"the sizes of every cluster depend on {', '.join(free)}, so there is nothing to "
            f"compile ahead of time; give them with --fix {free[0]}=SIZES or choose another format"
        )
    return (
        "the sizes of every cluster depend on what the model computes, so there is nothing to "
        "compile ahead of time; choose another format"
    )


def _is_symbolic(info: ValueInfoProto) -> bool:
    return not all(d.HasField("dim_value") for d in info.type.tensor_type.shape.dim)


def _make_names_unique(proto: ModelProto) -> None:
    seen: Counter[str] = Counter()
    for graph in graphs(proto.graph):
        for node in graph.node:
            name = node.name or next(filter(None, node.output), node.op_type)
            seen[name] += 1
            node.name = name if seen[name] == 1 else f"{name}#{seen[name]}"


def _bucketed(proto: ModelProto, provider: Provider, job: Job) -> Iterator[BucketedCluster]:
    """Yields the clusters of symbolic sizes, lowered for the sizes in use if there are any.

    Raises ModelError for one that cannot be, unless the rest is left to the session (`partial`).
    """
    if not job.options.sizes:
        return
    if job.embed:
        raise OptionError("sizes are compiled over one file of weights, without embed")
    if opset_of(proto) < OPSET:
        raise ModelError(f"sizes in use need opset {OPSET}; convert the model")
    for number, cluster in enumerate(provider.clusters):
        if isinstance(cluster, DynamicCluster):
            try:
                yield BucketedCluster.of(cluster, f"nnapi_sizes_{number}")
            except ModelError:
                if not job.partial:
                    raise


def _lowered(cluster: CompiledCluster | BucketedCluster) -> tuple[Lowered, ...]:
    return (cluster.lowered,) if isinstance(cluster, CompiledCluster) else cluster.lowered


def _nodes_at(
    cluster: CompiledCluster | BucketedCluster, proto: ModelProto
) -> Iterator[tuple[Lowered, ClusterNodes]]:
    """Yields a cluster as it is lowered for each set of sizes, and its nodes with its names."""
    for number, lowered in enumerate(_lowered(cluster)):
        renamed = cluster.renamed(number) if isinstance(cluster, BucketedCluster) else {}
        yield lowered, ClusterNodes(proto, cluster.report.nodes, renamed)


def _nodes_of(
    cluster: CompiledCluster | BucketedCluster, name: str, contexts: Sequence[bytes]
) -> list[NodeProto]:
    if isinstance(cluster, BucketedCluster):
        return cluster.nodes(contexts)
    of = cluster.report
    return [context_node(contexts[0], of, name, of.inputs, of.outputs)]


def _replace(
    graph: GraphProto, cluster: CompiledCluster | BucketedCluster, by: Sequence[NodeProto]
) -> None:
    """Replaces the cluster's nodes, in the main graph or a subgraph, with others."""
    members = set(cluster.report.nodes)
    home = next(g for g in graphs(graph) if any(n.name in members for n in g.node))
    replace_all(home.node, _ordered([*(n for n in home.node if n.name not in members), *by]))
    if isinstance(cluster, BucketedCluster):
        home.value_info.extend(cluster.results(by))
        return  # its own outputs have the sizes of a run
    known = {v.name for v in (*home.value_info, *home.output)}
    made = cluster.lowered.border.outputs
    home.value_info.extend(info_of(c) for c in made if c.name not in known)


def _ordered(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Returns the nodes in topological order, as close as possible to the given order."""
    writer = {name: i for i, n in enumerate(nodes) for name in n.output if name}
    order = nx.DiGraph()
    order.add_nodes_from(range(len(nodes)))
    for i, node in enumerate(nodes):
        order.add_edges_from((writer[name], i) for name in _reads(node) if name in writer)
    return [nodes[i] for i in nx.lexicographical_topological_sort(order)]


def _reads(node: NodeProto) -> set[str]:
    """Returns the names of all values that a node or its subgraphs read."""
    inner = [g for a in node.attribute for h in (a.g, *a.graphs) if h.node for g in graphs(h)]
    return {*node.input, *(name for g in inner for n in g.node for name in n.input)}


def _drop_unused(proto: ModelProto) -> None:
    """Removes initializers that only clusters read, except for those that are also graph inputs."""
    every = list(graphs(proto.graph))
    kept = {name for g in every for n in g.node for name in n.input}
    kept |= {o.name for g in every for o in g.output} | {i.name for i in proto.graph.input}
    for g in every:
        replace_all(g.initializer, [t for t in g.initializer if t.name in kept])


def _add_metadata(proto: ModelProto, packed: Sequence[Container], compatibility: str) -> None:
    """Adds the opset import, and metadata: container format, feature level, compatibility."""
    if CONTEXT_DOMAIN not in {o.domain for o in proto.opset_import}:
        proto.opset_import.append(helper.make_opsetid(CONTEXT_DOMAIN, 1))
    needed = max(min(a.needed for a in p.alternatives) for p in packed)
    names = _common_alternatives(packed)
    compiled_for = parse(compatibility)
    if compiled_for is not None and names:
        compatibility = str(replace(compiled_for, needed=needed, alternatives=names))
    of_plugin = f"format={FORMAT_VERSION} feature_level={needed}"
    of_plugin += f" alternatives={','.join(names)}" if names else ""
    for key, value in (
        ("ep_nnapi.format", FORMAT_VERSION),
        ("ep_nnapi.feature_level", needed),
        (f"ep_compatibility_info.{EP_SOURCE}", compatibility),
        (f"ep_compatibility_info.{CONTEXT_EP}", of_plugin),
    ):
        proto.metadata_props.add(key=key, value=str(value))


def _common_alternatives(packed: Sequence[Container]) -> tuple[str, ...]:
    """Returns the names of alternatives that all clusters have; none if each is one program.

    At each of NNAPI's levels a cluster has those of lower ones too.
    """
    if all(len(p.alternatives) == 1 for p in packed):
        return ()
    names = dict.fromkeys(a.name for p in packed for a in p.alternatives)
    return tuple(name for name in names if all(_has(p, name) for p in packed))


def _has(container: Container, name: str) -> bool:
    """Returns True if a container has an alternative that runs where that of the name does."""
    level = next((a.needed for a in container.alternatives if a.name == name), None)
    if level is None and name.startswith("nnapi:"):
        level = int(name.removeprefix("nnapi:"))
        return any(1 <= a.needed <= level for a in container.alternatives)
    return level is not None


def _save(proto: ModelProto, out: Path, folder: Path) -> None:
    """Writes the model file, with its external data of `folder` and a checksum of itself."""
    load_external_data_for_model(proto, str(folder))
    add_placeholder(proto)
    _write(proto, out)
    write_checksum(out)


def _write(proto: ModelProto, out: Path) -> None:
    if proto.ByteSize() <= EXTERNAL_DATA_THRESHOLD:
        onnx.save_model(proto, str(out))
        return
    digest = hashlib.sha256()
    for graph in graphs(proto.graph):
        for tensor in graph.initializer:
            digest.update(tensor.raw_data)
    location = companion_name(out, digest.hexdigest(), ".data")
    onnx.save_model(proto, str(out), save_as_external_data=True, location=location)
