"""Reports for other tools: all files of a format, each whole or not at all.

Source of the graphs and node data of Google's Model Explorer: the classes of the package
ai-edge-model-explorer, model_explorer/graph_builder.py and model_explorer/node_data_builder.py,
whose fields are the keys here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from pathlib import Path
from types import MappingProxyType

import onnx
from onnx import NodeProto
from onnx.external_data_helper import uses_external_data

from ep_nnapi.errors import ADVICE, Rejection
from ep_nnapi.graph.onnx_io import all_nodes, read_model, replace_all
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import write_output
from ep_nnapi.report.report import DecidedNode, GraphReport, NodeReport, Report

_MAIN = "main"  # the graph's id, where ONNX Runtime's key is ""
_NNAPI, _CPU = "#bfe3c6", "#f3d9b5"  # background colours of nodes
_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e0684b"})


NO_VALUES: Mapping[str, Mapping[str, float]] = MappingProxyType({})
_TITLES = {
    "decision": "NNAPI or CPU",
    "reason": "reason for the CPU",
    "time": "estimated microseconds",
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
        write_output(output, annotated(model, report, output.parent))
        return [output]
    contents = {output: collection(report, model.name)}
    for name, data in overlays(report, values).items():
        contents[output.with_name(f"{output.stem}.{name}.json")] = data
    for path, content in contents.items():
        write_output(path, json.dumps(content, indent=1, allow_nan=False))
    return list(contents)


def collection(report: Report, label: str) -> dict[str, object]:
    """A GraphCollection: the graphs of a report, with a namespace for each cluster.

    A node's id is its position in its graph. Rejections, notes and source lines are attributes.
    """
    graphs = [_graph(report, graph, nodes) for graph, nodes in report.decided()]
    return {"label": label, "graphs": graphs}


def overlays(
    report: Report, values: Mapping[str, Mapping[str, float]] = NO_VALUES
) -> dict[str, dict[str, object]]:
    """Node data by name: `decision`, `reason` of rejected nodes, and estimated `time` in us.

    values  more of them by name, as `error`: a number for each node that has one

    The content of one file each: graph ids with their GraphNodeData.
    """
    coloured = ("time", *values)
    found: dict[str, dict[str, object]] = {name: {} for name in ("decision", "reason", *coloured)}
    for graph, nodes in report.decided():
        results: dict[str, dict[str, object]] = {name: {} for name in found}
        for i, decided in enumerate(nodes):
            for name, value in _node_data(*decided, values):
                results[name][str(i)] = value
        for name, data in found.items():
            colours = {"gradient": list(_GRADIENT)} if name in coloured else {}
            about = {"name": _TITLES.get(name, name), "results": results[name]}
            data[graph.key or _MAIN] = about | colours
    return found


def _node_data(
    node: NodeReport,
    cluster: int | None,
    rejection: Rejection | None,
    values: Mapping[str, Mapping[str, float]],
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yields the data of a node by name."""
    if cluster is None:
        yield "decision", {"value": "CPU", "bgColor": _CPU}
    else:
        yield "decision", {"value": f"NNAPI: cluster {cluster}", "bgColor": _NNAPI}
    if rejection is not None:
        yield "reason", {"value": str(rejection.reason), "bgColor": _CPU}
    yield "time", {"value": round(node.cpu_us if cluster is None else node.nnapi_us, 3)}
    for name, numbers in values.items():
        if node.name in numbers:
            number = numbers[node.name]
            yield name, {"value": number if isfinite(number) else "not comparable"}


def _graph(report: Report, graph: GraphReport, decided: Sequence[DecidedNode]) -> dict[str, object]:
    sources = {
        name: (str(i), str(k))
        for i, node in enumerate(graph.outline)
        for k, name in enumerate(node.outputs)
    }
    notes = {n.node: n.detail for n in graph.notes}
    keys = [g.key for g in report.graphs if g.key]
    nodes = [
        {
            "id": str(i),
            "label": node.op_type,
            "namespace": "" if cluster is None else f"cluster {cluster}",
            "subgraphIds": [k for k in keys if k.rpartition(".")[0] == node.name],
            "attrs": _attributes(node, cluster, rejection, notes),
            "incomingEdges": _edges(node, sources),
            "outputsMetadata": [
                {"id": str(k), "attrs": _pairs({"tensor_name": name, "tensor_shape": kind})}
                for k, (name, kind) in enumerate(
                    zip(node.outputs, node.types or ("",) * len(node.outputs), strict=True)
                )
            ],
        }
        for i, (node, cluster, rejection) in enumerate(decided)
    ]
    taken = dict.fromkeys(cluster for _, cluster, _ in decided if cluster is not None)
    groups = {
        f"cluster {i}": {
            "device": report.clusters[i].device,
            "operators": report.clusters[i].operators,
            "bytes in and out": str(report.clusters[i].boundary_bytes),
        }
        for i in taken
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
        advice = ADVICE[rejection.reason]
        found |= {"reason": str(rejection.reason), "detail": rejection.detail, "advice": advice}
    return _pairs(found | {"note": notes.get(node.name, ""), "source": str(node.source or "")})


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
    proto = read_model(model, weights=False)
    if proto is None:
        raise ModelError(f"{model}: not an .onnx file, so Netron has no metadata of nodes to show")
    elsewhere = model.parent.resolve() != folder.resolve()
    if elsewhere and any(map(uses_external_data, proto.graph.initializer)):
        onnx.load_external_data_for_model(proto, str(model.parent))
    by_node: dict[str, dict[str, str]] = {}
    by_output: dict[str, dict[str, str]] = {}
    for node, cluster, rejection in (each for _, nodes in report.decided() for each in nodes):
        entry = by_node.setdefault(node.name, _entry(report, node, cluster, rejection))
        for name in node.outputs:
            by_output.setdefault(name, entry)
    for proto_node in all_nodes(proto.graph):
        merged = (by_output[name] for name in proto_node.output if name in by_output)
        found = by_node.get(proto_node.name) or next(merged, None) or {"decision": _GONE}
        _set(proto_node, found)
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # above 2 GB; the type varies between protobuf versions
        raise ModelError(
            f"{model}: with its external data it is too large for one file ({error}); write the "
            "output into the folder of the model"
        ) from None


def _entry(
    report: Report, node: NodeReport, cluster: int | None, rejection: Rejection | None
) -> dict[str, str]:
    time, entry = node.cpu_us, {"decision": "CPU"}
    if cluster is not None:
        device = report.clusters[cluster].device
        time = node.nnapi_us
        entry = {"decision": "NNAPI", "cluster": str(cluster), "device": device}
    elif rejection is not None:
        entry |= {"reason": str(rejection.reason), "detail": rejection.detail}
    if time:
        entry["time"] = f"about {time:.3g} us"
    return entry if node.source is None else {**entry, "source": str(node.source)}


def _set(node: NodeProto, entry: Mapping[str, str]) -> None:
    """Replaces earlier entries, so that an annotated model can be annotated again."""
    kept = [e for e in node.metadata_props if not e.key.startswith(PREFIX)]
    replace_all(node.metadata_props, kept)
    for key, value in entry.items():
        node.metadata_props.add(key=PREFIX + key, value=value)
