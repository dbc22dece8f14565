"""GetCapability and Compile of the execution provider of one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from ep_nnapi.collection import paused_collection
from ep_nnapi.graph.graph import Graph, GraphNode, numbered
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check, log, without_prefix
from ep_nnapi.ort.compute import Cluster, FusedNode
from ep_nnapi.ort.context import ContextData, ContextOptions, create_context_node
from ep_nnapi.ort.profiler import Profiler
from ep_nnapi.ort.reader import (
    Reader,
    count_nodes,
    count_subgraphs,
    first_name,
    first_unclaimed_node,
    is_inlined_later,
    read_graph,
)

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import WeightsTarget
    from ep_nnapi.ort._native import CData
    from ep_nnapi.ort.factory import NoNodesProvider
    from ep_nnapi.provider.provider import Provider


_INITIALIZATION_END = 27
"""The first version of ONNX Runtime that calls at the end of a session's initialization."""


class Ep:
    """Claims nodes in GetCapability and returns their compiled clusters in Compile.

    ONNX Runtime calls GetCapability again after inlining functions, and for each subgraph,
    innermost first. It compiles each graph before the next one, so only the latest plan is stored.
    """

    def __init__(
        self,
        provider: Provider | NoNodesProvider,
        logger: int = 0,
        context: ContextOptions | None = None,
        data: ContextData | None = None,
    ) -> None:
        self._provider = provider
        self._logger = logger  # the session's OrtLogger
        self._context = context
        self._data = data  # the application's callbacks for the weights of compiled models
        if data is not None and data.reads:
            provider.read_weights_by(data.read)
        self._path = ""  # of the model
        self._compatibility: CData | None = None
        self._clusters: dict[str, Cluster] = {}  # by the names of their nodes' outputs
        self._keys: list[str] = []  # of the subgraphs seen since the last main graph
        self._interrupt: BaseException | None = None
        self._nodes: WeakSet[FusedNode] = WeakSet()

    def close(self) -> None:
        """Ends the session of the provider."""
        self._provider.end()

    def get_capability(self, handle: int, support: CData) -> None:
        """GetCapability: claims the clusters that the provider plans for this graph.

        ONNX Runtime ignores failures here and would continue without NNAPI. On Ctrl-C, one node is
        therefore claimed, and Compile fails for it, so that the session's creation ends.
        """
        try:
            with paused_collection():
                self._claim_clusters(handle, support)
            if self._data is not None:
                self._data.forget()
        except Exception:
            raise
        except BaseException as interrupt:
            node = first_unclaimed_node(handle)
            if not node:
                raise
            check(lib.add_cluster(support, ffi.new("uintptr_t[]", [node]), 1, 0))
            self._interrupt = interrupt.with_traceback(None)

    def _claim_clusters(self, handle: int, support: CData) -> None:
        reader = Reader()
        self._clusters = {}
        if is_inlined_later(handle):
            return
        try:
            graph = self._with_unique_key(read_graph(handle, reader), handle)
            self._path = graph.path
            # no path: an .ort file, or bytes; what a written context takes is in the context
            loops = graph.key.endswith(".body") and not graph.path and self._context is None
            nodes = {node.id: node for node in graph.nodes}
            for cluster in self._provider.plan(graph):
                handles = [reader.handles[node_id] for node_id in cluster.node_ids]
                given = ffi.new("uintptr_t[]", handles), len(handles), int(loops)
                check(lib.add_cluster(support, *given))
                outputs = (v for i in cluster.node_ids for v in nodes[i].outputs)
                self._clusters.update((v.name, cluster) for v in outputs if v is not None)
            if not graph.key and lib.ort_version() < _INITIALIZATION_END:
                self.log_notice()
        except Exception as error:
            self._provider.error = error
            raise
        finally:
            reader.close()

    def log_notice(self) -> None:
        """Logs the provider's notice through ONNX Runtime's logger, unless planning has failed.

        ONNX Runtime before 1.27 does not call at the end of a session's initialization: there it is
        logged with each planning of the main graph, which functions cause again.
        """
        if self._provider.error is None:
            notice = self._provider.notice()
            log(self._logger, notice.text, warning=notice.warning)

    def _with_unique_key(self, graph: Graph, handle: int) -> Graph:
        """Returns `graph` with a unique key that is the same in each pass over the graphs.

        The main graph is the last one of a pass. Subgraphs with equal keys, as their parent nodes
        have equal names, are numbered. Before a pass ONNX Runtime may show some of its subgraphs,
        to inline functions in them: these are forgotten when the main graph is there.
        """
        if graph.key:
            self._keys.append(graph.key)
            times = self._keys.count(graph.key)
            return replace(graph, key=numbered(graph.key, times))
        if len(set(self._keys)) < len(self._keys):
            early = len(self._keys) - count_subgraphs(handle)
            if early > 0:
                self._provider.forget(self._keys[:early])
        self._keys.clear()
        return graph

    def compile(self, cluster_graph: int, fused_node: int) -> FusedNode:
        """Compile: returns the cluster of these nodes, bound to the fused node's tensors.

        Raises OrtError if the nodes were not planned.
        """
        if self._interrupt is not None:
            raise self._interrupt
        fused = Reader().node(fused_node)
        cluster = self._cluster_of(fused)
        if cluster is None or len(cluster.node_ids) != count_nodes(cluster_graph):
            names = ", ".join(v.name for v in fused.outputs if v is not None)
            raise OrtError(f"nodes to compile were never planned: those that compute {names}")
        inputs = [value for value in fused.inputs if value is not None]
        results = [value for value in fused.outputs if value is not None]
        runner = cluster.bind([value.name for value in inputs], [value.name for value in results])
        node = FusedNode(runner, inputs, results)
        self._nodes.add(node)
        return node

    def _cluster_of(self, fused: GraphNode) -> Cluster | None:
        return self._clusters.get(first_name(fused.outputs))

    def context_nodes(self, fused_nodes: Sequence[int]) -> list[int]:
        """Returns an EPContext node for each fused node; none if no compiled model is written.

        Call it after `compile` for the same nodes.
        """
        if self._context is None:
            return []
        nodes = [Reader().node(fused) for fused in fused_nodes]
        clusters = [cluster for node in nodes if (cluster := self._cluster_of(node)) is not None]
        contexts = self._provider.contexts(clusters, self._weights_target(self._context))
        pairs = zip(nodes, contexts, strict=True)
        return [create_context_node(node, *context) for node, context in pairs]

    def _weights_target(self, context: ContextOptions) -> WeightsTarget:
        from ep_nnapi.epcontext.contexts import WeightsReceiver  # most sessions write no context

        if context.embed or self._data is None or not self._data.writes:
            return context.weights_beside(self._path)
        return WeightsReceiver(context.compiled_path(self._path), self._data.write)

    def set_dynamic_options(self, entries: Mapping[str, str]) -> None:
        """Passes options on, whose names may have the prefix of provider options."""
        self._provider.set_dynamic_options({without_prefix(k): v for k, v in entries.items()})
        self._withdraw_direct_runs()

    def start_run(self, entries: Mapping[str, str]) -> None:
        """Sets options, whose names have the prefix, for the run that begins on this thread."""
        self._provider.start_run({without_prefix(k): v for k, v in entries.items()})

    def end_run(self) -> None:
        """Ends what `start_run` began."""
        self._provider.end_run()

    def profiler(self) -> Profiler:
        """Returns a new profiler of this session."""
        return Profiler(self._provider.listeners, self._withdraw_direct_runs)

    def _withdraw_direct_runs(self) -> None:
        """Has all clusters run through Python, so that they see what has changed."""
        for node in self._nodes:
            if node.direct is not None:
                node.direct.withdraw()

    def compatibility_info(self) -> CData:
        """Returns the string for a compiled model, which lives as long as this object."""
        self._compatibility = ffi.new("char[]", self._provider.compatibility_info.encode())
        return self._compatibility
