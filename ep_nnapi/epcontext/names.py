"""Names of EPContext nodes, and which of them are this provider's."""

from __future__ import annotations

from ep_nnapi.graph.graph import GraphNode

CONTEXT_OP, CONTEXT_DOMAIN = "EPContext", "com.microsoft"
SOURCE = "NnapiPluginExecutionProvider"
"""What the attribute `source` says of nodes of this provider."""


def is_own(node: GraphNode) -> bool:
    """Whether the node is a cluster that this provider compiled."""
    kind = (node.domain, node.op_type) == (CONTEXT_DOMAIN, CONTEXT_OP)
    return kind and node.attributes.get("source") == SOURCE
