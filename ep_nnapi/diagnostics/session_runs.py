"""Sessions that diagnostics open, the graphs of their models, their inputs and their outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnxruntime
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.inputs import (
    Feeds,
    InputSpec,
    fixed_specs,
    frozen_array,
    given_feeds,
    random_feeds,
    spec_of,
)
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, loadable, paths_of
from ep_nnapi.epcontext.contexts import verify_checksum_of_bytes
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.nnapi.files import require_file
from ep_nnapi.options.fixed import Fix, FixedSizes, contents_in, sets_of, sizes_in
from ep_nnapi.options.table import Options
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.planner import PlannedCluster
from ep_nnapi.provider.provider import Provider, handed_over
from ep_nnapi.provider.receipt import conclude
from ep_nnapi.sessions.cpu import (
    CPU,
    advice,
    custom_ops_library,
    exact_options,
    is_custom,
    quiet_options,
    session_of,
)
from ep_nnapi.sizes.int64_ranges import values_fitting_int32
from ep_nnapi.sizes.symbols import Shapes, require_symbols, size_named, symbol_values
from ep_nnapi.sizes.trial_sizes import runnable_shapes

SIZES = (1, 32, 64, 224)
"""Sizes of symbolic dimensions in random inputs: the first one, or near it, that the model runs."""

_MAX_ALONE = 8
"""Maximum inputs that get a size alone: each try is a run."""


def feeds_of(
    model: str | bytes,
    session: onnxruntime.InferenceSession,
    inputs: Inputs,
    seed: int,
    fixed: Fix = (),
    *,
    sizes: FixedSizes = (),
    may_end: bool = False,
) -> Feeds:
    """Returns the given inputs, or random ones that the session can run, with the fixed shapes.

    fixed    sizes of inputs, and contents of frozen ones, which are not among the given inputs
    sizes    of symbols: there is a run of random inputs for each set
    may_end  the process is a worker, which a kernel may end
    Raises OptionError for random inputs of custom operators in another process.
    """
    declared = [spec_of(i.name, i.type, i.shape) for i in session.get_inputs()]
    if sizes and paths_of(inputs) == ():
        require_symbols(declared, sizes)
        shapes = (fixed + tuple(each.items()) for each in sets_of(sizes))
        each = [feeds_of(model, session, (), seed, s, may_end=may_end).runs for s in shapes]
        return Feeds(tuple(run for runs in each for run in runs))
    every, frozen = fixed_specs(declared, sizes_in(fixed)), contents_in(fixed)
    held = {s.name: frozen_array(s, frozen[s.name]) for s in every if s.name in frozen}
    specs = [s for s in every if s.name not in frozen]

    def whole(feeds: Feeds) -> Feeds:
        return replace(feeds, runs=tuple({**run, **held} for run in feeds.runs))

    feeds = whole(given_feeds(inputs, specs, seed))
    given = paths_of(inputs) is None or paths_of(inputs)
    if not given and not may_end and custom_ops_library() is not None:
        _refuse_custom_operators(model)
    static = all(isinstance(d, int) for s in specs for d in s.dims)
    if given or static or _runs(session, feeds):
        return feeds
    possible = _specs(model, specs, sizes_in(fixed))
    tried = (whole(random_feeds(chosen, seed, size)) for size, chosen in possible)
    return next((random for random in tried if _runs(session, random)), feeds)


_VARIED = 8
"""Sets of sizes in which symbols grow, more than are compiled for."""


def varied_feeds(
    model: str | bytes,
    session: onnxruntime.InferenceSession,
    inputs: Inputs,
    seed: int,
    sizes: FixedSizes = (),
) -> Feeds:
    """Returns the inputs of one run, or if sizes are symbolic, random ones of several sizes.

    sizes   of symbols; without any, they grow by one from run to run
    """
    feeds = feeds_of(model, session, inputs, seed, sizes=sizes)
    specs = [spec_of(i.name, i.type, i.shape) for i in session.get_inputs()]
    first = feeds.runs[0]
    symbols = symbol_values(specs, {name: array.shape for name, array in first.items()})
    if paths_of(inputs) != () or not (sizes or symbols):
        return Feeds(feeds.runs[:1])
    known = {d for d in symbols if size_named(d, symbols) is None}
    grown = (tuple((d, (symbols[d] + more,)) for d in known) for more in range(_VARIED))
    tried = () if sizes else (random_feeds(fixed_specs(specs, dict(g)), seed) for g in grown)
    runs = tuple(each.runs[0] for each in tried if _runs(session, each))
    return Feeds(runs or feeds.runs)


def _specs(
    model: str | bytes, specs: Sequence[InputSpec], fixed: Shapes
) -> Iterator[tuple[int, Sequence[InputSpec]]]:
    """Yields sizes of the free dimensions, and inputs with some of these determined.

    First by the model's constants. What nodes in subgraphs ask for is found by trying: a size for
    the dimensions of one input, with 1 for all others, then more than one row, which indices need.
    """
    for size, shapes in _sizes(model, fixed):
        yield size, [replace(s, dims=shapes.get(s.name, s.dims)) for s in specs]
    several = [s for s in specs if not all(isinstance(d, int) for d in s.dims)][:_MAX_ALONE]
    for size in SIZES[1:] if len(several) > 1 else ():
        yield from ((size, [_without_free(s, one) for s in specs]) for one in several)
    rows = {s.dims[0] for s in specs if s.dims} - {None}
    for size in SIZES:
        yield size, [_with_rows(s, rows) for s in specs]


def _without_free(spec: InputSpec, one: InputSpec) -> InputSpec:
    """The input with 1 for each free dimension that is none of the input `one`."""
    if spec is one:
        return spec
    kept = {d for d in one.dims if isinstance(d, str)}
    return replace(spec, dims=tuple(d if isinstance(d, int) or d in kept else 1 for d in spec.dims))


def _with_rows(spec: InputSpec, rows: Collection[int | str | None]) -> InputSpec:
    """The input with 2 for its first dimension if that is free, and for all that equal one."""
    return replace(
        spec,
        dims=tuple(
            2 if not isinstance(d, int) and (i == 0 or d in rows) else d
            for i, d in enumerate(spec.dims)
        ),
    )


def _refuse_custom_operators(model: str | bytes) -> None:
    """Raises OptionError if the model has one: its kernel may end the process for made-up bytes."""
    found: list[GraphNode] = []
    read_graphs(model, lambda graph: found.extend(n for n in graph.nodes if is_custom(n.domain)))
    if found:
        raise OptionError(
            f"operator {found[0].op_type} of domain {found[0].domain} may end the process for "
            "random contents: give inputs with --input (report has none: leave out --measure)"
        )


def _sizes(model: str | bytes, fixed: Shapes) -> Iterator[tuple[int, Shapes]]:
    """Yields sizes, and shapes of inputs near them that agree with the model's constants."""
    found: dict[int, Shapes] = {}

    def read(graph: Graph) -> None:
        if not graph.key:
            found.update((size, runnable_shapes(graph, fixed, size)) for size in SIZES)

    with suppress(NnapiError):  # a model whose clusters are compiled runs on their device alone
        read_graphs(model, read)
    yield from ((size, found.get(size, {})) for size in SIZES)


def _runs(session: onnxruntime.InferenceSession, feeds: Feeds) -> bool:
    """True if the session can run the first inputs; no error is printed if it cannot."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    try:
        session.run(None, dict(feeds.runs[0]), options)
    except Exception:  # ONNX Runtime's exceptions have no common base class
        return False
    return True


def outputs_of(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, Array], provider: Provider | None
) -> Mapping[str, Array]:
    """Returns one run's outputs; raises the device's RuntimeFailure in it, or else ModelError."""
    names = [o.name for o in session.get_outputs()]
    earlier = provider.failures if provider is not None else ()
    try:
        values = session.run(names, dict(feeds))
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        failures = provider.failures if provider is not None else ()
        if failed := [failure for failure in failures if failure not in earlier]:
            raise failed[-1] from None
        advice = _other_sizes(session, feeds)
        raise ModelError(f"the model cannot run: {first_line(error)}{advice}") from None
    return {k: array for named in zip(names, values, strict=True) for k, array in _arrays(*named)}


def _other_sizes(session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> str:
    """Returns advice on the inputs of symbolic sizes; "" if there are none."""
    for given in session.get_inputs():
        if not all(isinstance(size, int) for size in given.shape):
            sizes = ",".join(map(str, feeds[given.name].shape))
            return f"; perhaps for input {given.name} of sizes {sizes}: give --input or --fix"
    return ""


def _arrays(name: str, value: object) -> Iterator[tuple[str, Array]]:
    """Yields the arrays of an output by name; a sequence yields one array for each element.

    The maps that ZipMap computes, one for each row, are one array again: a column for each key.
    """
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        yield name, np.array([list(row.values()) for row in value], np.float32)
    elif isinstance(value, list):
        for i, element in enumerate(value):
            yield from _arrays(f"{name}[{i}]", element)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield name, value
    else:
        raise ModelError(f"output {name} holds no numbers, so there is nothing to compare")


def source(model: ModelSource) -> str | bytes:
    """Returns bytes, or the path of an existing, non-empty file; raises ModelError otherwise."""
    model = loadable(model)
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes")
        verify_checksum_of_bytes(model)
        return model
    require_file(Path(model))
    return str(Path(model))


def open_session(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    provider: Provider | None = None,
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """Returns a stock session on the CPU provider, after NNAPI's if one is given.

    provider  decides for this session
    without   names of ONNX Runtime's optimizers to disable
    Raises ModelError if the model cannot be loaded, and the error of `provider`, which ONNX Runtime
    would only print before it continues without NNAPI.
    """
    if provider is None:
        return _opened(model, options, [CPU], without)
    register()
    with handed_over(provider) as strings:
        session = _opened(model, options, [(EP_NAME, strings), CPU], without)
    if isinstance(provider.error, NnapiError):
        raise provider.error
    if provider.error is not None:
        raise NnapiError(f"planning failed: {provider.error!r}") from provider.error
    if not provider.opened:
        raise NnapiError(f"ONNX Runtime made no session with {EP_NAME}; it says why on stderr")
    return session


def _opened(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    providers: Sequence[object],
    without: Sequence[str],
) -> onnxruntime.InferenceSession:
    called = "the model" if isinstance(model, bytes) else model
    try:
        session = session_of(model, options, providers, without)
    except OptionError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        said = first_line(error) + advice(str(error))
        raise ModelError(f"{called}: ONNX Runtime cannot load it: {said}") from None
    try:
        for value in (*session.get_inputs(), *session.get_outputs()):
            _ = value.name, value.shape
    except UnicodeDecodeError as error:
        raise ModelError(f"{called}: the name {error.object!r} is not UTF-8; rename it") from None
    return session


_SOURCE = re.compile(r"/\S+\.(?:cc|cpp|h):\d+ .*?\) |\w+\.(?:cc|cpp|h):\d+ \S+ ")
"""A source location of ONNX Runtime with its function: FILE:LINE and a signature, or a name."""


def first_line(error: Exception) -> str:
    """Returns the first line of an ONNX Runtime error, without error codes and source locations."""
    said = str(error).strip().split("\n", maxsplit=1)[0].split(" : ", 2)[-1]
    return " ".join(_SOURCE.sub(" ", said).split())


def run_on_nnapi(
    model: ModelSource, feeds: Feeds, options: Options
) -> tuple[Provider, list[Mapping[str, Array]]]:
    """Runs a stock session on NNAPI; returns the provider and the outputs of each run.

    Raises OptionError if its receipt cannot be written.
    """
    provider, session = nnapi_session(model, options)
    outputs = [outputs_of(session, f, provider) for f in feeds.runs]
    conclude(provider)
    return provider, outputs


def nnapi_session(
    model: ModelSource,
    options: Options,
    settings: onnxruntime.SessionOptions | None = None,
) -> tuple[Provider, onnxruntime.InferenceSession]:
    """Returns a stock session on NNAPI and its provider."""
    provider = Provider(options, measure=True)
    return provider, open_session(source(model), settings or exact_options(), provider)


class _GraphReader(Provider):
    """A provider that takes nothing."""

    def __init__(self, read: Callable[[Graph], None]) -> None:
        super().__init__(Options())
        self._read = read

    def plan(self, graph: Graph) -> tuple[PlannedCluster, ...]:
        """Hands over the graph; returns no clusters."""
        self._read(graph)
        return ()


def read_graphs(model: str | bytes, read: Callable[[Graph], None]) -> None:
    """Calls `read` with each graph of the model, unoptimized, while its constants can be read.

    Raises ModelError if the model cannot be loaded.
    """
    open_session(model, quiet_options(GraphOptimizationLevel.ORT_DISABLE_ALL), _GraphReader(read))


Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""Least and greatest element of inputs, by name."""


def values_that_fit(model: Path, ranges: Ranges) -> set[str]:
    """Returns the names of the model's INT64 values whose elements all fit INT32."""
    found: set[str] = set()
    read_graphs(str(model), lambda graph: found.update(values_fitting_int32(graph, ranges)))
    return found
