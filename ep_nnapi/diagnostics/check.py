"""Reports on device placement, from the provider in a real ONNX Runtime session: `check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.model_sources import ModelSource
from ep_nnapi.diagnostics.session_runs import open_session, source
from ep_nnapi.graph.source_lines import SourceLines, source_lines
from ep_nnapi.nnapi.errors import OptionError, Reason, suggestion
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.nnapi.runtime import Device, Runtime
from ep_nnapi.options.table import OptionKeywords, Options, parse
from ep_nnapi.options.values import Partitioning
from ep_nnapi.provider.cluster_selection import TAKEN
from ep_nnapi.provider.devices import devices
from ep_nnapi.provider.provider import Provider, planner_of
from ep_nnapi.report.report import ClusterReport, GraphReport, Report, operator_counts
from ep_nnapi.sessions.cpu import quiet_options

_DEFAULTS = Options()


def check(model: ModelSource, **options: Unpack[OptionKeywords]) -> Report:
    """Returns which nodes of `model` run on NNAPI under `options`, and why the others do not.

    model   a path or the bytes of an .onnx or .ort file, an onnx.ModelProto, or the result of
            torch.onnx.export
    Creates a stock ONNX Runtime session without running it, so placement is as in real sessions.
    The partition is maximal; clusters that a session with these options leaves have a reason.
    Raises ModelError (missing, unreadable or invalid model) and OptionError.
    """
    return checked(model, parse(options))


def checked(model: ModelSource, options: Options, *, written: bool = False) -> Report:
    """Returns the report of `check`; `written`: as for `Provider`."""
    model = source(model)
    report = with_sources(partitioned(model, options, written=written).report, model)
    if options.partitioning is Partitioning.AUTO:
        report = replace(report, clusters=tuple(_as_in_sessions(report)))
    return replace(report, digest=digest_of(model))


def _as_in_sessions(report: Report) -> Iterator[ClusterReport]:
    """Yields the clusters, with a reason for those that sessions leave unless told otherwise."""
    left = {note.node for note in report.notes if note.detail.endswith(TAKEN)}
    for cluster in report.clusters:
        alone = left.issuperset(cluster.nodes)
        yield replace(cluster, reason=Reason.NOT_WORTH_IT) if alone else cluster


def partitioned(
    model: ModelSource, options: Options = _DEFAULTS, *, fast: bool = True, written: bool = False
) -> Provider:
    """Returns the provider after it has partitioned `model`; raises as `check`.

    fast, written  as for `partitioned_at`
    """
    if options.receipt is not None:
        raise OptionError(
            "nothing runs here, so there is no receipt; give the option to run, compare, tune or a "
            "session"
        )
    with fixed_model(source(model), options) as (static, rest):
        basic = GraphOptimizationLevel.ORT_ENABLE_BASIC
        provider = partitioned_at(static, rest, basic, fast=fast, written=written)
    check_excluded(options, provider.report)
    return provider


def partitioned_at(
    model: str | bytes,
    options: Options,
    level: GraphOptimizationLevel,
    runtime: Runtime | None = None,
    *,
    fast: bool = False,
    written: bool = False,
) -> Provider:
    """Returns the provider after it has partitioned `model`, which ORT optimizes at `level`.

    The partition is maximal, unless the options choose another one.

    runtime   replaces the runtime of the options
    fast      use a session's devices; without it clusters are lowered for no device of the host in
              particular, as in files that are written for others
    written   as for `Provider`
    """
    shown = replace(options, partitioning=options.partitioning.whole)
    provider = Provider(shown, runtime, fast=fast, measure=True, written=written)
    # saving in ORT format would skip compilation, but writes a file and is limited to 2 GB
    settings = quiet_options(level)
    settings.add_session_config_entry("session.disable_prepacking", "1")
    settings.intra_op_num_threads = 1  # nothing runs, so neither threads nor an arena are needed
    settings.enable_cpu_mem_arena = False
    open_session(model, settings, provider)
    return provider


def with_sources(report: Report, model: str | bytes) -> Report:
    """Returns the report on `model` with the source lines that the model's metadata has."""
    return with_lines(report, source_lines(model))


def with_lines(report: Report, lines: SourceLines) -> Report:
    """Returns the report with these source lines of its nodes."""
    if not lines.by_output:
        return report
    graphs = tuple(_graph_with_lines(graph, lines) for graph in report.graphs)
    rejections = tuple(r for graph in graphs for r in graph.rejections)
    return replace(report, graphs=graphs, rejections=rejections)


def _graph_with_lines(graph: GraphReport, lines: SourceLines) -> GraphReport:
    outputs = {n.name: n.outputs for n in graph.outline}
    outline = (replace(n, source=lines.of(n.name, n.outputs)) for n in graph.outline)
    rejections = (
        replace(r, source=lines.of(r.node, outputs.get(r.node, ()))) for r in graph.rejections
    )
    return replace(graph, outline=tuple(outline), rejections=tuple(rejections))


def feature_levels(options: Options) -> list[Options]:
    """Returns the options at each feature level of their runtime."""
    highest = planner_of(replace(options, feature_level=None)).compiler.target.feature_level
    return [replace(options, feature_level=level) for level in range(1, highest + 1)]


def check_excluded(options: Options, report: Report) -> None:
    """Raises OptionError if `exclude` or `partitioning_stop_ops` has an unknown name.

    Node names must exist in the model as ONNX Runtime presents it. Operator types need only be
    known to ONNX Runtime, since the same options may be used with many models.
    """
    nodes = {name for c in report.clusters for name in c.nodes}
    nodes.update(r.node for r in report.rejections)
    types = {r.op_type for r in report.rejections}
    for name in _unknown_names(options.exclude, nodes | types):
        raise OptionError(
            f"exclude names {name}, no operator type and no node that ONNX Runtime shows of this "
            f"model{suggestion(name, (*nodes, *_operator_types()))}"
        )
    for name in _unknown_names(options.partitioning_stop_ops, types):
        near = suggestion(name, _operator_types())
        raise OptionError(f"partitioning_stop_ops names {name}, no operator type{near}")


def _unknown_names(given: Sequence[str], known: set[str]) -> Iterable[str]:
    unknown = [name for name in given if name not in known]
    if not unknown:  # common case, which needs no list of all operators
        return ()
    types = _operator_types()
    return (name for name in unknown if name not in types)


def _operator_types() -> frozenset[str]:
    """Returns all operator types of ONNX Runtime, including contrib operators."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset(schema.name for schema in get_all_operator_schema())


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """One device, and the report of `check` for it."""

    device: Device
    report: Report

    @property
    def taken(self) -> str:
        """The operators that run on the device: `2 Conv, 1 Gemm`."""
        return operator_counts(t for c in self.report.clusters for t in c.op_types)

    @property
    def declined(self) -> str:
        """The operators that NNAPI has and the device declines."""
        rejections = self.report.rejections
        return operator_counts(r.op_type for r in rejections if r.reason is Reason.DRIVER)

    def to_json(self) -> dict[str, object]:
        """Returns what `ep-nnapi devices MODEL` prints of the model, as JSON-serializable data."""
        return {
            "nodes": self.report.nodes,
            "nodes_taken": self.report.taken,
            "clusters": len(self.report.clusters),
            "taken": self.taken,
            "declined": self.declined,
        }


def device_support(model: ModelSource, options: Options) -> list[DeviceSupport]:
    """Returns for each device of the runtime what it takes of `model`; raises as `check`."""
    return [
        DeviceSupport(device, checked(model, replace(options, device=device.name)))
        for device in devices(options.runtime)
    ]
