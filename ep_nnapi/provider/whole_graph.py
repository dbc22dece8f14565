"""Graphs whose capable nodes are one cluster: judged once, for all sizes.

Others are judged for sample sizes, and each cluster is lowered for open sizes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ep_nnapi.capability.graph import Capability, judge_traced
from ep_nnapi.graph.dag import inputs_of
from ep_nnapi.graph.graph import Graph, copy_constants
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.nnapi.expressions import Expression
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.sizes import Size, is_symbolic
from ep_nnapi.options.table import Options
from ep_nnapi.options.target import RuleSet
from ep_nnapi.options.values import DynamicShapes
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.tracing import Tracing, is_small
from ep_nnapi.sizes.bind import bind_shapes, graph_inputs, is_dynamic

logger = module_logger(__name__)


class NotWhole(Exception):
    """The capable nodes of a graph are not one cluster that is compiled for open sizes."""


@frozen
class WholeGraph:
    """A graph whose sizes are those of the tracing."""

    capability: Capability
    tracing: Tracing

    @staticmethod
    def of(graph: Graph, compiler: Compiler, options: Options) -> WholeGraph | None:
        """Judges a graph with open sizes; None if it has none, or they do not fit together."""
        target = compiler.target
        if (
            not compiler.takes_expressions
            or target.rules is RuleSet.BUILTIN
            or options.dynamic_shapes is not DynamicShapes.SPECIALIZE
            or options.fix
            or options.sizes
            or not is_dynamic(graph_inputs(graph))
        ):
            return None
        from ep_nnapi.sizes.trial_sizes import default_shapes  # most graphs have no unknown sizes

        try:
            graph = replace(graph, nodes=copy_constants(graph.nodes))
            read = {value.name for node in graph.nodes for value in inputs_of(node)}
            inputs = [value for value in graph_inputs(graph) if value.name in read]
            tracing = Tracing.of(inputs, default_shapes(graph))
            bind = partial(bind_shapes, shapes=tracing.shapes)
            found = judge_traced(graph, target, options, bind, tracing.trace)
        except Exception as error:  # sizes that do not fit together, for one
            logger.debug("the graph is judged for sample sizes: %s", error)
            return None
        return None if found is None or tracing.coincides else WholeGraph(found, tracing)

    def of_cluster(self, inputs: Sequence[Value]) -> Tracing:
        """The same of a cluster with these inputs; raises NotWhole if they lack a symbol."""
        folded = [value for value in inputs if value.folded]
        if any(not is_small(v.constant) or is_symbolic(v.shape) for v in folded):
            raise NotWhole  # they would be inputs of the model
        shapes = {value.name: value.shape for value in inputs}
        contents = {v.name: v.constant.integers for v in folded if v.constant}
        known = {Expression.symbol(symbol): symbol for symbol in self.tracing.symbols}
        places: dict[str, tuple[tuple[str, int], ...]] = {}
        for name, sizes in (*shapes.items(), *contents.items()):
            for at, size in enumerate(sizes):
                symbol = known.get(size.expression) if isinstance(size, Size) else None
                if symbol is not None:
                    places[symbol] = (*places.get(symbol, ()), (name, at))
        if len(places) < len(known):
            raise NotWhole
        return replace(
            self.tracing, inputs=[*inputs], shapes=shapes, places=places, contents=contents
        )
