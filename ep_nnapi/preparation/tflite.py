"""LiteRT flatbuffers of a model: one for each cluster, written and compared with the original."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import onnx
from onnx import ModelProto
from onnx.external_data_helper import load_external_data_for_model

from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.verdict import Verdict
from ep_nnapi.graph.onnx_io import drop_constant_inputs, edited
from ep_nnapi.litert import package
from ep_nnapi.litert.device import LiteRtRuntime
from ep_nnapi.litert.library import FlatModel, load
from ep_nnapi.litert.to_tflite import convert
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import Options
from ep_nnapi.ort_devices.graph import Inexpressible
from ep_nnapi.preparation.alternatives import flat_ports, info_of
from ep_nnapi.preparation.job import FLATBUFFER
from ep_nnapi.preparation.verify import read_recorded
from ep_nnapi.preparation.write_epcontext import compilable, why_not_compiled
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.report.report import Report

EXPOSED = "exposed.onnx"
"""File beside the output's folder: the model with what enters and leaves clusters as outputs."""

_ONLY_INSIDE = (
    "all that can be compiled is inside If, Loop or Scan, where clusters have no inputs of their "
    "own, so there is nothing to write; choose another format"
)


def save_tflite(model: Path, out: Path, options: Options, scratch: Path) -> Report:
    """Writes a flatbuffer for each cluster of `model`, with the ONNX names, types and layouts.

    model     already optimized; gets unique node names and is otherwise used as it is
    out       the file where one cluster covers the model; else STEM_nnapi_N.tflite beside it
    scratch   folder for the model with exposed boundaries, if there are several files
    Returns the report of a session whose device is LiteRT: what it declines is a rejection. Raises
    ModelError if there is nothing to write, OptionError without the extra.
    """
    package.require_installed()
    report, written = _written(model, out, options, scratch)
    gc.collect()  # the graphs of a flatbuffer refer to each other, and to copies of weights
    for path, first in written.items():
        with _about(first):
            load(path)
    return report


def _written(
    model: Path, out: Path, options: Options, scratch: Path
) -> tuple[Report, dict[Path, str]]:
    """Writes the same; returns the report, and the first node of each flatbuffer."""
    with edited(model) as proto:
        drop_constant_inputs(proto.graph)  # a flatbuffer's inputs have no defaults
    proto, provider, static = compilable(model, options, LiteRtRuntime())
    inside = {node.name for node in proto.graph.node}
    # those of control flow have no inputs of their own
    clusters = [cluster for cluster in static if set(cluster.report.nodes) <= inside]
    if not clusters:
        raise ModelError(_ONLY_INSIDE if static else why_not_compiled(proto, provider.report))
    whole = len(clusters) == 1 and len(clusters[0].report.nodes) == provider.report.nodes
    if not whole:
        exposed = _exposed(proto, clusters)
        load_external_data_for_model(exposed, str(model.parent))
        weights = f"{EXPOSED}.data"
        onnx.save_model(exposed, scratch / EXPOSED, save_as_external_data=True, location=weights)
        del exposed
    written = {}
    for n, cluster in enumerate(clusters):
        path = out if whole else out.with_name(f"{out.stem}_nnapi_{n}{FLATBUFFER}")
        written[path] = cluster.report.nodes[0]
        border = cluster.lowered.border
        with _about(written[path]):
            ports = flat_ports(border.inputs), flat_ports(border.outputs)
            path.write_bytes(convert(cluster.lowered.model, *ports))
    return provider.report, written


@contextmanager
def _about(first: str) -> Iterator[None]:
    """Has errors name the cluster whose first node that is."""
    try:
        yield
    except (Inexpressible, ModelError) as reason:
        raise ModelError(f"the cluster of {first}: {reason}") from None


def _exposed(proto: ModelProto, clusters: Sequence[CompiledCluster]) -> ModelProto:
    """A copy of the model, with all tensors at borders of clusters as outputs."""
    exposed = deepcopy(proto)
    known = {v.name for v in (*exposed.graph.input, *exposed.graph.output)}
    for cluster in clusters:
        border = cluster.lowered.border
        for crossing in (*border.inputs, *border.outputs):
            if crossing.name not in known:
                known.add(crossing.name)
                exposed.graph.output.append(info_of(crossing))
    return exposed


def compare_flatbuffers(folder: Path, recorded: Path, options: Options) -> Verdict:
    """Runs all flatbuffers of a folder in LiteRT and judges their outputs.

    Each gets its inputs from the recorded values, so that no error of one hides another's. Raises
    ModelError if one cannot be run, or if no values of its names were recorded.
    """
    known = read_recorded(recorded)
    got: list[dict[str, Array]] = [{} for _ in known.feeds]
    for path in sorted(folder.glob(f"*{FLATBUFFER}")):
        found = load(path)
        for n, (fed, values) in enumerate(zip(known.feeds, known.outputs, strict=True)):
            got[n] |= found.run(_inputs(found, path, {**values, **fed}))
    wanted: list[dict[str, Array]] = []
    for values, results in zip(known.outputs, got, strict=True):
        unknown = sorted(results.keys() - values.keys())
        if unknown or not results:
            raise ModelError(f"the flatbuffers compute {unknown[:1]}, which was not recorded")
        wanted.append({name: values[name] for name in values if name in results})
    outputs = got, wanted
    return compared(known.model, known.feeds, outputs, known.tolerance, half=options.half)


def _inputs(model: FlatModel, path: Path, values: Mapping[str, Array]) -> dict[str, Array]:
    missing = sorted(set(model.inputs) - values.keys())
    if missing:
        raise ModelError(f"{path.name} has an input {missing[0]} that the original does not have")
    return {name: values[name] for name in model.inputs}
