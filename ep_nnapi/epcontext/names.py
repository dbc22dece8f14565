"""Names of EPContext nodes, their format's version, and a test for those of this provider."""

from __future__ import annotations

from ep_nnapi.graph.graph import GraphNode

FORMAT_VERSION = 2
"""Version of the containers that are written."""

CONTEXT_OP, CONTEXT_DOMAIN = "EPContext", "com.microsoft"
CONTEXT_EP = "NnapiContextExecutionProvider"
"""Name of the plugin in C that runs prepared models; `native/plugin.h` has it too."""

EP_SOURCE = "NnapiPluginExecutionProvider"
"""Value of the attribute `source` in EPContext nodes of this provider."""


def is_own(node: GraphNode) -> bool:
    """Returns True if the node is an EPContext node that this provider compiled."""
    kind = (node.domain, node.op_type) == (CONTEXT_DOMAIN, CONTEXT_OP)
    return kind and node.attributes.get("source") == EP_SOURCE
