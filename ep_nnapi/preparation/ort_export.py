"""Optimizing models with ONNX Runtime and saving them, optionally with NNAPI's nodes unfused.

Most extended fusions skip nodes assigned to other providers. Some check the assignment of only one
node or of none: MatMul and Add in attention become Gemm, and MatMulInteger with the nodes after it
becomes MatMulIntegerToFloat. No fusion spans a tensor with a second consumer, so an extra consumer
prevents it.
Source: onnxruntime 1.31, MatMulAddFusion at TransformerLevel::Level2, MatMulIntegerToFloatFusion.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import onnxruntime
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper
from onnxruntime import GraphOptimizationLevel
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph

from ep_nnapi.diagnostics.check import checked, with_sources
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import ModelSource
from ep_nnapi.diagnostics.session_runs import open_session, source
from ep_nnapi.graph.onnx_io import edited, graphs, mentions, opset_of, replace_all, temporary
from ep_nnapi.graph.ort_io import (
    inner_graphs,
    nodes,
    opened,
    operators,
    outputs,
    text,
    unreadable,
)
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.options.table import Options
from ep_nnapi.preparation.job import Format, Job, Level, Platform, Style
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.cpu import quiet_options

_GENERATED = ("gemm_input_shape", "gemm_output_shape", "splits", "squeeze_axes")
"""Name prefixes of the constants that ONNX Runtime creates, in fusions of MatMul and Add, and of
Gathers or Slices into a Split.

If two of them are equal, ConstantSharing frees one name but leaves its data. A second fusion reuses
the name, and session creation fails with "Attempt to replace the existing tensor".
Source: onnxruntime 1.31, MatMulAddFusion, GatherSliceToSplitFusion and ConstantSharing.
"""


def rename_generated(path: Path) -> None:
    """Renames the constants of `_GENERATED` in an .onnx file so that it can be optimized again."""
    if not mentions(path, *map(str.encode, _GENERATED)):
        return
    with edited(path) as proto:
        every = tuple(graphs(proto.graph))
        ends = {v.name for v in (*proto.graph.input, *proto.graph.output)}
        renamed = _renamed({t.name for g in every for t in g.initializer} - ends)
        for graph in every:
            for tensor in graph.initializer:
                tensor.name = renamed.get(tensor.name, tensor.name)
            for node in graph.node:
                node.input[:] = [renamed.get(name, name) for name in node.input]


def restore_subgraphs(path: Path, saved: Path) -> None:
    """Restores names and outputs of subgraphs in the .onnx file `path`, written from `saved`.

    Subgraphs in .ort files have no names, and ONNX Runtime drops the outputs of subgraphs without
    nodes, which are constants. It does not load an .onnx file that lacks them.
    """
    with opened(saved) as graph:
        if not any(True for node in nodes(graph) for _ in inner_graphs(node)):
            return
        with edited(path) as proto:
            _restore_subgraphs(proto.graph, graph)


def _restore_subgraphs(graph: GraphProto, saved: Graph) -> None:
    known = {(tuple(n.output), a.name): a.g for n in graph.node for a in n.attribute}
    for node in nodes(saved):
        for name, its in inner_graphs(node):
            inner = known[outputs(node), name]
            inner.name = inner.name or name
            if not inner.node and not inner.output:
                initializers = {t.name: t for t in inner.initializer}
                inner.output.extend(_info(initializers[output]) for output in outputs(its))
            _restore_subgraphs(inner, its)


def _info(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _renamed(names: Set[str]) -> dict[str, str]:
    """Returns new names for the generated ones, apart from those given when it was saved before."""
    renamed = {}
    for name in (n for n in names if n.startswith(_GENERATED)):
        free = (f"{'prepared_' * n}{name}" for n in count(1))
        renamed[name] = next(new for new in free if new not in names)
    return renamed


_READER = "ep_nnapi_reader_"


def is_unfused(saved: Path, report: Report) -> bool:
    """Returns True if the .ort file `saved` contains all nodes of the clusters in `report`.

    A fused node is missing, or its name belongs to a node that computes other outputs. Both the
    names of nodes and the names of outputs must therefore be present.
    """
    with opened(saved) as graph:
        written = frozenset(_names(graph))
    return all(written.issuperset((*c.nodes, *c.outputs)) for c in report.clusters)


def add_consumers(model: Path, report: Report) -> None:
    """Adds a consumer to each tensor that clusters compute or read, in subgraphs too.

    model   after ONNX Runtime's basic optimization; unnamed nodes are matched by first output
    """
    numbers = count()
    claimed = {name for c in report.clusters for name in c.nodes}
    with edited(model) as proto:
        operator = _reader(proto)
        for graph in graphs(proto.graph):
            computed = {name for node in graph.node for name in node.output if name}
            read = {
                name: None
                for node in graph.node
                if (node.name or node.output[0]) in claimed
                for name in (*node.input, *node.output)
                if name in computed
            }
            graph.node.extend(
                helper.make_node(operator, [name], [f"{_READER}{next(numbers)}"]) for name in read
            )


def remove_consumers(model: Path) -> None:
    """Removes the consumers that `expose` added."""
    with edited(model) as proto:
        for graph in graphs(proto.graph):
            kept = [n for n in graph.node if not n.output[0].startswith(_READER)]
            replace_all(graph.node, kept)


def _reader(proto: ModelProto) -> str:
    """Returns the type of the operator to add as a consumer.

    SequenceConstruct, from opset 11, accepts tensors of every type on the CPU provider, and NNAPI
    never claims it. ONNX Runtime saves a claimed node only if the CPU provider has a kernel for
    its types too; Size, which is used below opset 11, has none for float16.
    """
    return "SequenceConstruct" if opset_of(proto) >= 11 else "Size"


def _names(graph: Graph) -> Iterator[str]:
    """Yields the names of all nodes of a graph in an .ort file, and of their outputs."""
    for node in nodes(graph):
        yield text(node.Name())
        yield from outputs(node)
        for _, inner in inner_graphs(node):
            yield from _names(inner)


_INITIALIZERS = "session.optimized_model_external_initializers"
_WEIGHTS_SUFFIX = ".data"
_NCHWC = ["NchwcTransformer"]  # blocked layout for x86
_LEVELS = {
    Level.DISABLE: GraphOptimizationLevel.ORT_DISABLE_ALL,
    Level.BASIC: GraphOptimizationLevel.ORT_ENABLE_BASIC,
    Level.EXTENDED: GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    Level.ALL: GraphOptimizationLevel.ORT_ENABLE_ALL,
    Level.NNAPI_AWARE: GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
}


def save_ort(model: ModelSource, out: Path, job: Job) -> Report | None:
    """Saves `model` in ORT format; returns the provider's report at level nnapi-aware, else None.

    ONNX Runtime assigns nodes but compiles none when it saves a model. Nodes assigned to NNAPI
    stay unchanged, and the level's optimizations apply to the rest. Raises ModelError.
    """
    if job.level is not Level.NNAPI_AWARE:
        saving = _ort_saving_options(out, job)
        open_session(source(model), saving, without=_disabled_optimizers(job))
        _require_readable(out)
        return None
    try:
        report = _assigned(source(model), out, job)
    except _Unreadable:
        raise
    except ModelError as whole:
        # The CPU provider needs a kernel for every saved node. It has none for a function that
        # NNAPI claims as a single node, so inline the functions and try again.
        with _basic(model, out, job) as inlined:
            try:
                report = _assigned(str(inlined), out, job)
            except _Unreadable:
                raise
            except ModelError:
                raise whole from None
    if not is_unfused(out, report):
        _save_protected(model, out, job, report)
    return report


class _Unreadable(ModelError):
    """ONNX Runtime would not read the .ort file that it has written."""


def _require_readable(saved: Path) -> None:
    """Raises _Unreadable for a type of tensors that the format does not have, such as INT4."""
    found = unreadable(saved)
    if found:
        raise _Unreadable(
            f"ONNX Runtime's own format has no {found}; take the format onnx or context"
        )


def _save_protected(model: ModelSource, out: Path, job: Job, report: Report) -> None:
    """Saves `model` with NNAPI's nodes protected from ONNX Runtime's fusions."""
    with _basic(model, out, job) as basic, temporary_onnx(out, ".protected.onnx") as protected:
        add_consumers(basic, report)
        _assigned(str(basic), out, job)
        _to_onnx(out, protected, job, external_weights=True)
        remove_consumers(protected)
        save_ort(protected, out, Job(Level.DISABLE, Format.ORT, job.platform))


@contextmanager
def _basic(model: ModelSource, out: Path, job: Job) -> Iterator[Path]:
    """Yields `model` as an .onnx file after basic optimization, with all functions inlined."""
    with temporary_onnx(out, ".basic.onnx") as basic:
        how = Job(Level.BASIC, Format.ONNX, job.platform)
        saving = _saving_options(basic, Format.ONNX, how, external_weights=True)
        open_session(source(model), saving, without=_disabled_optimizers(job))
        rename_generated(basic)
        yield basic


@contextmanager
def temporary_onnx(out: Path, suffix: str) -> Iterator[Path]:
    """Yields a path for a temporary .onnx file; deletes it and its external data afterwards."""
    with temporary(out, suffix) as path, temporary(out, f"{suffix}{_WEIGHTS_SUFFIX}"):
        yield path


def _assigned(model: str | bytes, out: Path, job: Job) -> Report:
    """Saves `model` as an .ort file in which the nodes that the provider claims are unchanged."""
    report = _claimed(model, _ort_saving_options(out, job), job)
    if job.format is Format.ORT and report.taken and "QLinearConv" in operators(out):
        # At level all, full builds change the layout of QLinearConv when they load the file. If
        # clusters were compiled before, this looks up nodes that no longer exist. Applying the
        # layout now avoids it.
        saving = _ort_saving_options(out, job)
        saving.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        report = _claimed(model, saving, job)
    return report


def _claimed(model: str | bytes, saving: onnxruntime.SessionOptions, job: Job) -> Report:
    provider = Provider(job.options, fast=False, measure=True, runs=False)
    open_session(model, saving, provider, _NCHWC)
    _require_readable(Path(saving.optimized_model_filepath))
    return provider.report


def save_onnx(
    model: ModelSource, out: Path, job: Job, *, external_weights: bool = False
) -> tuple[Report | None, Level]:
    """Saves `model` as an .onnx file; returns the report, as `save_ort`, and the level saved at.

    external_weights   store large weights as external data, as in `temporary_onnx`

    ONNX Runtime refuses to write .onnx from a session with compiled nodes, but not from an .ort
    file with assigned nodes. Level nnapi-aware therefore converts via .ort if NNAPI takes any node;
    where that format does not have a type of the model's, the level is basic.
    """
    if job.level is not Level.NNAPI_AWARE:
        saving = _saving_options(out, Format.ONNX, job, external_weights=external_weights)
        open_session(source(model), saving, without=_disabled_optimizers(job))
        return None, job.level
    level = Level.NNAPI_AWARE
    with temporary(out, ".assigned.ort") as assigned:
        other = Level.EXTENDED
        try:
            report = save_ort(model, assigned, job)
        except _Unreadable:
            report, level, other = None, Level.BASIC, Level.BASIC
        if report is not None and report.taken:
            _to_onnx(assigned, out, job, external_weights=external_weights)
        else:
            save_onnx(model, out, replace(job, level=other), external_weights=external_weights)
    return report or checked(out, job.options), level


def _to_onnx(saved: Path, out: Path, job: Job, *, external_weights: bool = False) -> None:
    """Converts an .ort file to .onnx without changing its nodes."""
    as_it_is = Job(Level.DISABLE, Format.ONNX, job.platform)
    saving = _saving_options(out, Format.ONNX, as_it_is, external_weights=external_weights)
    open_session(str(saved), saving)
    rename_generated(out)
    restore_subgraphs(out, saved)


def check_replay(saved: Path) -> None:
    """Raises ModelError unless ONNX Runtime can replay the optimizations recorded in a model.

    It records some optimizations of quantized layers that it cannot replay.
    """
    options = quiet_options()
    options.add_session_config_entry("session.enable_saved_runtime_optimizations", "1")
    try:
        open_session(str(saved), options)
    except ModelError as error:
        raise ModelError(
            f"ONNX Runtime cannot replay what it recorded, so take style fixed; {error}"
        ) from None


def save_replayed(model: ModelSource, out: Path, job: Job) -> None:
    """Saves a model of style runtime as it is after all recorded optimizations are replayed.

    A session replays some or all of them at load, so a reduced build needs the operators of both
    the recorded model and this one.
    """
    options = _saving_options(out, Format.ORT, job)
    options.add_session_config_entry("optimization.minimal_build_optimizations", "apply")
    open_session(source(model), options, without=_disabled_optimizers(job))


def checked_at(model: ModelSource, level: Level, options: Options) -> Report:
    """Returns the report of `check` on `model` after saving it at an optimization level.

    Shows which nodes NNAPI loses at a level. Raises as `check`.
    """
    model = source(model)
    if not isinstance(model, bytes) and contents(model):
        raise ModelError(f"{model}: it is compiled already, with no level to choose")
    with (
        fixed_model(model, options) as (static, rest),
        tempfile.TemporaryDirectory(prefix="ep-nnapi-") as folder,
    ):
        saved = Path(folder, "saved.ort")
        save_ort(static, saved, Job(level, options=rest))
        report = with_sources(checked(saved, rest), model)
        return replace(report, digest=digest_of(model))


def _ort_saving_options(out: Path, job: Job) -> onnxruntime.SessionOptions:
    options = _saving_options(out, Format.ORT, job)
    if job.style is Style.RUNTIME:
        options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
    return options


def _disabled_optimizers(job: Job) -> Sequence[str]:
    """Returns the names of optimizers to disable for the target platform."""
    return [] if job.platform is Platform.AMD64 else _NCHWC


def _saving_options(
    out: Path, form: Format, job: Job, *, external_weights: bool = False
) -> onnxruntime.SessionOptions:
    """Returns session options that save the model.

    external_weights   store those of an .onnx file as external data: edits need not copy them
    """
    options = quiet_options(_LEVELS[job.level])
    options.optimized_model_filepath = str(out)
    options.intra_op_num_threads = 1  # nothing runs, so neither threads nor an arena are needed
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.save_model_format", form.upper())
    options.add_session_config_entry("session.disable_prepacking", "1")
    if external_weights:
        options.add_session_config_entry(
            f"{_INITIALIZERS}_file_name", f"{out.name}{_WEIGHTS_SUFFIX}"
        )
        options.add_session_config_entry(f"{_INITIALIZERS}_min_size_in_bytes", "1024")
    if job.platform is Platform.ARM:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    return options
