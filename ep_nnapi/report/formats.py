"""Reports for other tools: all files of a format, each whole or not at all.

Source of the graphs and node data of Google's Model Explorer: the classes of the package
ai-edge-model-explorer, model_explorer/graph_builder.py and model_explorer/node_data_builder.py,
whose fields are the keys here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import accumulate
from math import isfinite
from pathlib import Path
from types import MappingProxyType

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto
from onnx.external_data_helper import uses_external_data

from ep_nnapi.errors import ADVICE, Rejection
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import write_output
from ep_nnapi.report.report import GraphReport, NodeReport, Report

_MAIN = "main"  # the graph's id, where ONNX Runtime's key is ""
_NNAPI, _CPU = "#bfe3c6", "#f3d9b5"  # background colours of nodes
_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e0684b"})


NO_VALUES: Mapping[str, Mapping[str, float]] = MappingProxyType({})
_TITLES = {
    "error": "error, relative to the spread of the outputs",
    "measured": "measured microseconds",
}


class ReportFormat(StrEnum):
    """Tools that a report can be written for."""

    MODEL_EXPLORER = "model-explorer"
    NETRON = "netron"


def write_format(
    form: ReportFormat,
    model: Path,
    report: Report,
    output: Path,
    values: Mapping[str, Mapping[str, float]] = NO_VALUES,
) -> list[Path]:
    """Writes a report, as of `check`, for a tool; returns the files.

    model-explorer   the graph at `output`, and beside it node data: `NAME.decision.json`, ...
    netron           an .onnx file at `output`
    values           more node data of Model Explorer by name: a number for each node that has one
    Raises ModelError for a model that the tool cannot show, OptionError if a file cannot be written
    or `output` is the model itself.
    """
    if output.resolve() == model.resolve():
        raise OptionError(f"{output} is the model itself; give another output")
    if form is ReportFormat.NETRON:
        return _netron(model, report, output)
    return _model_explorer(model, report, output, values)


def _model_explorer(
    model: Path, report: Report, output: Path, values: Mapping[str, Mapping[str, float]]
) -> list[Path]:
    contents = {output: collection(report, model.name)}
    for name, data in overlays(report, values).items():
        contents[output.with_name(f"{output.stem}.{name}.json")] = data
    for path, content in contents.items():
        write_output(path, json.dumps(content, indent=1, allow_nan=False))
    return list(contents)


def _netron(model: Path, report: Report, output: Path) -> list[Path]:
    from ep_nnapi.report.formats import annotated

    write_output(output, annotated(model, report, output.parent))
    return [output]


def collection(report: Report, label: str) -> dict[str, object]:
    """A GraphCollection: the graphs of a report, with a namespace for each cluster.

    A node's id is its position in its graph. Rejections, notes and source lines are attributes.
    """
    keys = [g.key for g in report.graphs]
    graphs = [_graph(graph, first, keys) for graph, first in _numbered(report)]
    return {"label": label, "graphs": graphs}


def _numbered(report: Report) -> Iterator[tuple[GraphReport, int]]:
    """Yields the graphs with the number of their first cluster."""
    firsts = accumulate((len(graph.clusters) for graph in report.graphs), initial=0)
    return zip(report.graphs, firsts, strict=False)


def overlays(
    report: Report, values: Mapping[str, Mapping[str, float]] = NO_VALUES
) -> dict[str, dict[str, object]]:
    """Node data by name: `decision`, `reason` of rejected nodes, and estimated `time` in us.

    values  more of them by name, as `error`: a number for each node that has one
    The content of one file each: graph ids with their GraphNodeData.
    """
    return {
        "decision": _overlay(report, "NNAPI or CPU", _decision),
        "reason": _overlay(report, "reason for the CPU", _reason),
        "time": _overlay(report, "estimated microseconds", _time, gradient=True),
    } | {
        name: _overlay(report, _TITLES.get(name, name), _number_of(numbers), gradient=True)
        for name, numbers in values.items()
    }


_Value = dict[str, object]


def _overlay(
    report: Report,
    name: str,
    value: Callable[[NodeReport, int | None, Rejection | None], _Value | None],
    *,
    gradient: bool = False,
) -> dict[str, object]:
    found: dict[str, object] = {}
    for graph, first_cluster in _numbered(report):
        results = {}
        for i, (node, cluster, rejection) in enumerate(_decided(graph, first_cluster)):
            given = value(node, cluster, rejection)
            if given is not None:
                results[str(i)] = given
        colours = {"gradient": list(_GRADIENT)} if gradient else {}
        found[graph.key or _MAIN] = {"name": name, "results": results, **colours}
    return found


def _decision(node: NodeReport, cluster: int | None, rejection: Rejection | None) -> _Value:
    if cluster is None:
        return {"value": "CPU", "bgColor": _CPU}
    return {"value": f"NNAPI: cluster {cluster}", "bgColor": _NNAPI}


def _reason(node: NodeReport, cluster: int | None, rejection: Rejection | None) -> _Value | None:
    return None if rejection is None else {"value": str(rejection.reason), "bgColor": _CPU}


def _time(node: NodeReport, cluster: int | None, rejection: Rejection | None) -> _Value:
    return {"value": round(node.cpu_us if cluster is None else node.nnapi_us, 3)}


def _number_of(
    numbers: Mapping[str, float],
) -> Callable[[NodeReport, int | None, Rejection | None], _Value | None]:
    def value(node: NodeReport, cluster: int | None, rejection: Rejection | None) -> _Value | None:
        number = numbers.get(node.name)
        if number is None:
            return None
        return {"value": number if isfinite(number) else "not comparable"}

    return value


def _decided(
    graph: GraphReport, first_cluster: int
) -> Iterator[tuple[NodeReport, int | None, Rejection | None]]:
    """Each node with the number of its cluster, or None and its rejection."""
    clusters = {name: first_cluster + i for i, c in enumerate(graph.clusters) for name in c.nodes}
    rejections = {r.node: r for r in graph.rejections}
    for node in graph.outline:
        cluster = clusters.get(node.name)
        yield node, cluster, rejections.get(node.name) if cluster is None else None


def _graph(graph: GraphReport, first_cluster: int, keys: list[str]) -> dict[str, object]:
    sources = {
        name: (str(i), str(k))
        for i, node in enumerate(graph.outline)
        for k, name in enumerate(node.outputs)
    }
    notes = {n.node: n.detail for n in graph.notes}
    nodes = []
    for i, (node, cluster, rejection) in enumerate(_decided(graph, first_cluster)):
        nodes.append(
            {
                "id": str(i),
                "label": node.op_type,
                "namespace": "" if cluster is None else f"cluster {cluster}",
                "subgraphIds": [k for k in keys if k and k.rpartition(".")[0] == node.name],
                "attrs": _attributes(node, cluster, rejection, notes),
                "incomingEdges": _edges(node, sources),
                "outputsMetadata": [
                    {"id": str(k), "attrs": _pairs({"tensor_name": name, "tensor_shape": kind})}
                    for k, (name, kind) in enumerate(
                        zip(node.outputs, node.types or ("",) * len(node.outputs), strict=True)
                    )
                ],
            }
        )
    groups = {
        f"cluster {first_cluster + i}": {
            "device": c.device,
            "operators": c.operators,
            "bytes in and out": str(c.boundary_bytes),
        }
        for i, c in enumerate(graph.clusters)
    }
    return {"id": graph.key or _MAIN, "nodes": nodes, "groupNodeAttributes": groups}


def _edges(node: NodeReport, sources: Mapping[str, tuple[str, str]]) -> list[dict[str, str]]:
    return [
        {
            "sourceNodeId": sources[name][0],
            "sourceNodeOutputId": sources[name][1],
            "targetNodeInputId": str(k),
        }
        for k, name in enumerate(node.inputs)
        if name in sources
    ]


def _attributes(
    node: NodeReport, cluster: int | None, rejection: Rejection | None, notes: Mapping[str, str]
) -> list[dict[str, str]]:
    found = {"name": node.name, "decision": "CPU" if cluster is None else f"cluster {cluster}"}
    if rejection is not None:
        found["reason"] = str(rejection.reason)
        found["detail"] = rejection.detail
        found["advice"] = ADVICE[rejection.reason]
    if node.name in notes:
        found["note"] = notes[node.name]
    if node.source is not None:
        found["source"] = str(node.source)
    return _pairs(found)


def _pairs(found: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in found.items() if value]


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
