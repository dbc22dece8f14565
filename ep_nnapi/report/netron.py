"""Models with the decision in each node's metadata, which Netron shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto
from onnx.external_data_helper import uses_external_data

from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.report.report import GraphReport, NodeReport, Report

PREFIX = "ep_nnapi."
"""The prefix of the metadata's keys: decision, cluster, device, reason, detail, source, time."""
_GONE = "none: ONNX Runtime's basic optimization folds, merges or renames it before NNAPI is asked"


def annotated(model: Path, report: Report, folder: Path) -> bytes:
    """The bytes of an .onnx file, to be saved in `folder`, with the report's decisions.

    Nodes are found by their names, or by their outputs where ONNX Runtime has merged them. External
    data is embedded unless it is in `folder` already. Raises ModelError for other files than .onnx
    and for models above 2 GB.
    """
    proto = _loaded(model)
    if any(map(uses_external_data, proto.graph.initializer)) and not _same(model.parent, folder):
        onnx.load_external_data_for_model(proto, str(model.parent))
    entries: dict[str, dict[str, str]] = {}
    outputs: dict[str, dict[str, str]] = {}
    for graph in report.graphs:
        _collect(graph, report, entries, outputs)
    for graph_proto in graphs(proto.graph):
        _annotate(graph_proto, entries, outputs)
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # above 2 GB; the type varies between protobuf versions
        raise ModelError(
            f"{model}: with its external data it is too large for one file ({error}); write the "
            "output into the folder of the model"
        ) from None


def _loaded(model: Path) -> ModelProto:
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except (DecodeError, UnicodeDecodeError):
        proto = ModelProto()
    if not proto.graph.node:
        raise ModelError(f"{model}: not an .onnx file, so Netron has no metadata of nodes to show")
    return proto


def _same(folder: Path, other: Path) -> bool:
    return folder.resolve() == other.resolve()


def _collect(
    graph: GraphReport,
    report: Report,
    by_node: dict[str, dict[str, str]],
    by_output: dict[str, dict[str, str]],
) -> None:
    """Adds the entries of a graph's nodes."""
    clusters = {name: c for c in graph.clusters for name in c.nodes}
    numbers = {c.nodes: str(i) for i, c in enumerate(report.clusters)}
    rejections = {r.node: r for r in graph.rejections}
    for node in graph.outline:
        cluster, rejection = clusters.get(node.name), rejections.get(node.name)
        if cluster is not None:
            entry = {
                "decision": "NNAPI",
                "cluster": numbers[cluster.nodes],
                "device": cluster.device,
            }
        elif rejection is not None:
            reason, detail = str(rejection.reason), rejection.detail
            entry = {"decision": "CPU", "reason": reason, "detail": detail}
        else:
            entry = {"decision": "CPU"}
        entry |= _common(node, taken=cluster is not None)
        by_node.setdefault(node.name, entry)
        for name in node.outputs:
            by_output.setdefault(name, entry)


def _common(node: NodeReport, *, taken: bool) -> dict[str, str]:
    time = node.nnapi_us if taken else node.cpu_us
    entry = {"time": f"about {time:.3g} us"} if time else {}
    return entry | ({"source": str(node.source)} if node.source is not None else {})


def _annotate(
    graph: GraphProto,
    by_node: Mapping[str, dict[str, str]],
    by_output: Mapping[str, dict[str, str]],
) -> None:
    for node in graph.node:
        merged = (by_output[name] for name in node.output if name in by_output)
        entry = by_node.get(node.name) or next(merged, None) or {"decision": _GONE}
        _set(node, entry)


def _set(node: NodeProto, entry: Mapping[str, str]) -> None:
    """Replaces earlier entries, so that an annotated model can be annotated again."""
    kept = [e for e in node.metadata_props if not e.key.startswith(PREFIX)]
    del node.metadata_props[:]
    node.metadata_props.extend(kept)
    for key, value in entry.items():
        added = node.metadata_props.add()
        added.key, added.value = PREFIX + key, value
