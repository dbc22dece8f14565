"""Operators that a session's provider lowered to NNAPI, and errors inside it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import onnx
import onnxruntime

from ep_nnapi.diagnostics.session_runs import provider_of_session
from ep_nnapi.operators import VARIANTS, operations
from ep_nnapi.options.table import parse
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import CPU, session_of

DEFECT = "a defect of ep-nnapi"  # how `capability.judge` ends the refusal of a wrong lowering


class Wrong(Exception):
    """The provider went on, but not as it should."""


@contextmanager
def provider_session(
    model: bytes, options: onnxruntime.SessionOptions, given: Mapping[str, object]
) -> Iterator[tuple[onnxruntime.InferenceSession, Callable[[], Provider]]]:
    """A stock session that lists the provider before the CPU's, and the provider behind it."""
    register()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    with provider_of_session(parse({"partitioning": "maximal", **given})) as (strings, found):
        providers = [(EP_NAME, strings), CPU]
        session = session_of(model, options, providers)
        yield session, found


def require_sound(provider: Provider) -> None:
    """Raises Wrong where a lowering, a model or a device was at fault, though nothing was lost."""
    for refused in provider.report.rejections:
        if DEFECT in refused.detail or "did not compile" in refused.detail:
            raise Wrong(f"{refused.node} ({refused.op_type}): {refused.detail}")
    for failure in provider.failures:
        raise Wrong(str(failure))


def delegated(
    model: onnx.ModelProto, session: onnxruntime.InferenceSession, provider: Provider
) -> set[tuple[str, str]]:
    """(domain, operator) of each node that has an operation that it lowers to."""
    kinds = {name: (n.domain, n.op_type) for n in model.graph.node for name in _names(n)}
    for part in session.get_provider_graph_assignment_info():
        kinds.update({n.name: (n.domain, n.op_type) for n in part.get_nodes() if n.name})
    found = set()
    for cluster in provider.clusters:
        for operation in (op for m in cluster.models for op in m.operations):
            for kind in (kinds.get(name) for name in operation.origin):
                variants = VARIANTS.get(kind, ()) if kind else ()
                if kind and operation.spec.name in {
                    r.name for v in variants for _, r in operations(v)
                }:
                    found.add(kind)
    return found


def _names(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names that the provider may give the node."""
    return (node.name or next(o for o in node.output if o),)
