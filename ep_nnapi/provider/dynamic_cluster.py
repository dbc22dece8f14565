"""Clusters with symbolic dimensions: compiled for the shapes of each run, with an LRU cache."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from ep_nnapi.capability.call_checks import NO_ELEMENTS
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.onnx_io import model_of_ranks, without_shapes
from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.border import Allocate, Place, Stop
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason, module_logger
from ep_nnapi.nnapi.expressions import Symbols
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.sizes import now
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.buckets import Buckets, SizeAdmission, padding
from ep_nnapi.provider.cluster_record import (
    ClusterRecord,
    RunEvents,
    note_fallback,
    run_with_events,
)
from ep_nnapi.provider.compiled_cluster import CompiledCluster, DirectRun, Runner
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.fallback import ClusterRun, CpuModel, cpu_executor
from ep_nnapi.provider.open_compilation import NO_CONTENTS, InputContents, OpenCompilation
from ep_nnapi.provider.tracing import Traced
from ep_nnapi.report.report import CPU_FALLBACK, ClusterReport, Phase, Substitute
from ep_nnapi.sizes.bind import bind_shapes, is_dynamic
from ep_nnapi.sizes.symbols import Shapes

logger = module_logger(__name__)
_SIZES_CHANGE = (
    "it is compiled for {} different sizes, and for others when their runs have taken as long as a "
    "compilation; fix sizes (--fix), name those in use (--sizes), keep more (--shape-cache, "
    "--new-sizes), or leave what does not pay to the CPU (--partitioning worth_it)"
)
_MOST_BOUND = 64
"""Sizes of open compilations for which it is remembered that they hold."""
_Key: TypeAlias = tuple[tuple[tuple[int, ...], ...], tuple[bytes, ...]]


@frozen
class DynamicCluster:
    """One cluster whose NNAPI model depends on the shapes of its inputs.

    nodes    its nodes, with copies of their constants that outlive the graph
    sampled  NNAPI models for the sample shapes that its capability was checked with
    cache_size  maximum number of compiled variants in the cache
    at_once     number of sizes that are compiled when they are met, see `SizeAdmission`
    shape_inputs  inputs whose contents determine shapes inside; they are part of the cache's key
    opened   what was compiled for many sizes when the session was created
    buckets  the sizes that runs are padded to where these need numbers, if there are any
    """

    node_ids: tuple[int, ...]
    report: ClusterReport
    nodes: tuple[GraphNode, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opsets: Mapping[str, int]
    sampled: tuple[Model, ...]
    compiler: Compiler
    fallback: Fallback
    cache_size: int
    at_once: int
    shape_inputs: tuple[str, ...] = ()
    opened: tuple[OpenCompilation, ...] = ()
    buckets: Buckets | None = None
    record: ClusterRecord = field(default_factory=ClusterRecord, compare=False)
    _cpu_model: list[CpuModel] = field(default_factory=list, compare=False)
    _numbers_only: list[bool] = field(default_factory=list, compare=False)

    @property
    def models(self) -> tuple[Model, ...]:
        """The NNAPI models of `opened`; without any, `sampled`."""
        return tuple(made.lowered.members.model for made in self.opened) or self.sampled

    @property
    def open_inputs(self) -> tuple[Value, ...]:
        """Its inputs of symbolic sizes."""
        return tuple(value for value in self.inputs if is_dynamic([value]))

    @property
    def needs_numbers(self) -> bool:
        """True if it is compiled for each size by itself."""
        return bool(self._numbers_only) or not self.compiler.takes_sizes

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> DynamicRunner:
        """Returns a runner for inputs and outputs with these names in this order."""
        return DynamicRunner(self, tuple(input_names), tuple(output_names))

    def open(
        self, shapes: Shapes, contents: InputContents = NO_CONTENTS, *, sample: bool = False
    ) -> OpenCompilation | None:
        """Returns a compilation for sizes like these of its inputs; None if there is none.

        contents  of `shape_inputs`
        sample    True if the sizes are supposed: they may be beyond a table of the model's
        """
        lower = partial(self.compiler.lower_traced, self._graph(self._with_contents(contents)))
        return self._compiled_open(partial(lower, shapes), shapes, contents, sample=sample)

    def _compiled_open(
        self, lower: Callable[[], Lowered], shapes: Shapes, contents: InputContents, *, sample: bool
    ) -> OpenCompilation | None:
        if self.needs_numbers:
            return None
        try:
            made = OpenCompilation.of(self.compiler, lower())
            symbols = None if made is None else made.symbols(shapes, contents)
            numbers_only = made is None or made.is_for_numbers_faster(self.compiler, symbols)
            if made is None or numbers_only or (symbols and not made.computes(symbols)):
                if numbers_only or not sample:
                    self._numbers_only.append(True)
                return None
        except Exception as error:  # sizes that contradict the model, too
            why = error.detail if isinstance(error, Declined) else error
            logger.debug("%s is compiled for each size: %s", self.report.nodes[0], why)
            return None
        made.add_to(self.record)
        return made

    def with_opened(self, samples: Iterable[Sequence[Value]]) -> DynamicCluster | None:
        """Returns the cluster with a compilation for sizes like those of the first that has one.

        samples  its inputs with sizes, and contents where these determine shapes
        """
        for values in samples:
            known = {v.name: v.constant.array for v in values if v.folded and v.constant}
            contents = {name: known[name] for name in self.shape_inputs if name in known}
            made = self.open({v.name: v.shape for v in values}, contents, sample=True)
            if made is not None:
                return self._with(made)
        return None

    def with_traced(self, traced: Traced) -> DynamicCluster | None:
        """Returns the cluster with a compilation of what it was traced to; None without one."""
        shapes = {name: tuple(map(now, sizes)) for name, sizes in traced.tracing.shapes.items()}
        contents = {v.name: v.constant.load() for v in traced.tracing.inputs if v.constant}
        made = self._compiled_open(
            partial(self.compiler.proved, traced), shapes, contents, sample=True
        )
        return None if made is None else self._with(made)

    def _with(self, made: OpenCompilation) -> DynamicCluster:
        report = replace(self.report, device=made.placed.device.name)
        return replace(self, report=report, opened=(made,))

    def at(self, made: OpenCompilation, symbols: Symbols) -> CompiledCluster:
        """Returns the cluster for one of the sizes that a compilation holds for."""
        placed = made.placed
        border = placed.lowered.border.with_sizes(symbols)
        return CompiledCluster(
            self.node_ids,
            replace(self.report, device=placed.device.name),
            replace(placed.lowered, border=border),
            placed.compilation,
            placed.compiler,
            self.fallback,
            self._cpu_of_runs(),
            self.record,
            symbols,
        )

    def specialize(self, given: Mapping[str, Array]) -> CompiledCluster:
        """Returns it compiled for the shapes of these inputs, not kept; raises Declined."""
        shapes = {name: array.shape for name, array in given.items()}
        graph = self._graph(self._with_contents({name: given[name] for name in self.shape_inputs}))
        placed = self.compiler.compile(self.compiler.lower_for_shapes(graph, shapes))
        if placed.substitute is None and placed.device.name != self.report.device:
            placed = replace(placed, substitute=self.elsewhere(placed.device.name))
        return CompiledCluster.of(
            self.node_ids, self.report, placed, self.fallback, self._cpu_of_runs(), self.record
        )

    def lower(self, shapes: Shapes) -> Lowered:
        """Returns its NNAPI model for inputs of these shapes; raises Declined."""
        return self.compiler.lower_for_shapes(self._graph(self.inputs), shapes)

    def _graph(self, inputs: tuple[Value, ...]) -> Graph:
        return Graph("cluster", self.nodes, inputs, self.outputs, self.opsets)

    def elsewhere(self, to: str, why: str = "other devices take other sizes") -> Substitute:
        """Returns that these sizes are computed by `to` and not by the device of the report."""
        return Substitute(self.report.device, to, Phase.COMPILE, why)

    def _with_contents(self, contents: InputContents) -> tuple[Value, ...]:
        """Returns the inputs, with their contents as constants if these determine shapes."""
        known = {name: Constant.of(array.copy()) for name, array in contents.items()}
        return tuple(
            replace(v, constant=known[v.name], folded=True) if v.name in known else v
            for v in self.inputs
        )

    @property
    def output_types(self) -> dict[str, np.dtype[np.generic]]:
        """The element types of its outputs."""
        return {value.name: value.dtype.numpy for value in self.outputs}

    def output_shapes(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of its outputs for inputs of these shapes."""
        return {v.name: v.shape for v in bind_shapes(self._graph(self.inputs), shapes).outputs}

    def _cpu_of_runs(self) -> CpuModel | None:
        """Returns the model for the CPU provider if a run may need it though sizes fit."""
        limited = any(value.limit for value in self.inputs)
        return self.cpu_model() if limited or self.fallback is Fallback.CPU else None

    def cpu_model(self) -> CpuModel:
        """Returns its nodes for the CPU provider, for any sizes."""
        if not self._cpu_model:
            parts = [part for n in self.nodes for part in n.originals]
            ends = self.inputs, without_shapes(self.outputs)
            make = partial(model_of_ranks, parts, *ends, self.opsets)
            self._cpu_model.append(CpuModel.of(make, self.compiler.options.threads))
        return self._cpu_model[0]


@dataclass(slots=True)
class DynamicRunner:
    """Runs a dynamic cluster; thread-safe, also for concurrent runs with different shapes."""

    cluster: DynamicCluster
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _opened: list[OpenCompilation] = field(init=False)
    _executors: OrderedDict[_Key, ClusterRun] = field(default_factory=OrderedDict)
    _bound: OrderedDict[_Key, ClusterRun] = field(default_factory=OrderedDict)
    _lock: ForkableLock = field(default_factory=ForkableLock)
    _compiling: ForkableLock = field(default_factory=ForkableLock)
    _admission: SizeAdmission = field(init=False)
    _cpu: ClusterRun | None = None
    _empty: ClusterRun | None = None
    _not_padded: str = ""
    _tried: frozenset[tuple[str, int, int]] = frozenset()

    def __post_init__(self) -> None:
        """Without a fallback every size is compiled."""
        self._opened = [*self.cluster.opened]
        none = self.cluster.fallback is Fallback.NONE
        self._admission = SizeAdmission(None if none else self.cluster.at_once)

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes the outputs; compiles the cluster for new shapes that `SizeAdmission` admits.

        Other shapes, and those for which that fails, run on the CPU provider; a warning is logged.
        """
        named = dict(zip(self.inputs, inputs, strict=True))
        shape_inputs = tuple(named[name].tobytes() for name in self.cluster.shape_inputs)
        key = (tuple(a.shape for a in inputs), shape_inputs)
        executor = self._cached_executor(key) or self._open_executor(key)
        if executor is None and not all(a.size for a in inputs):
            executor = self._without_elements(named)
        if executor is None and self.cluster.buckets is not None and self.cluster.needs_numbers:
            executor = self._padded(key, named, self.cluster.buckets)
        if executor is None:
            compute = self._compiled if self._admission.admits(key) else self._waiting
            executor = compute(key, named)
        executor(inputs, allocate, stop)

    def _without_elements(self, named: Mapping[str, Array]) -> ClusterRun:
        """Returns what computes inputs without elements, such as a decoder's empty cache."""
        if self._empty is None:
            first = next(name for name, array in named.items() if not array.size)
            why = f"{Reason.SHAPE}: {first} has no elements; {NO_ELEMENTS}"
            self._warn(named, why)
            self._empty = self._on_cpu(why)
        return self._empty

    def _padded(self, key: _Key, named: Mapping[str, Array], buckets: Buckets) -> ClusterRun | None:
        """Returns what pads runs of these sizes; None if padding is refused, with a warning."""
        shapes = {name: array.shape for name, array in named.items()}
        bucket = buckets.shapes(shapes)
        if bucket is None or self._refusal(buckets, shapes):
            return None
        whole = tuple(bucket[name] for name in self.inputs)
        if bucket == shapes:
            return self._compiled(key, named, in_use=True)
        found, types = self.cluster.output_shapes(shapes), self.cluster.output_types
        cuts = [(found[name], types[name]) for name in self.outputs]
        return self._cache(key, padding(self, whole, cuts), self._bound, _MOST_BOUND)

    def _refusal(self, buckets: Buckets, shapes: Shapes) -> str:
        """Returns why runs are not padded, "" if they are; tried once for each size padded to."""
        padded = frozenset(buckets.padded(shapes))
        with self._lock:
            if not (self._not_padded or padded <= self._tried):
                self._not_padded = buckets.refusal(self.cluster.cpu_model().run, shapes)
                self._tried |= padded
                if self._not_padded:
                    logger.warning("%s is not padded: %s", self._called, self._not_padded)
            return self._not_padded

    def _compiled(
        self, key: _Key, named: Mapping[str, Array], *, in_use: bool = False
    ) -> ClusterRun:
        """Returns the cluster compiled for these sizes, or for others as well.

        in_use   the sizes are named by option `sizes`, beside those that are counted
        """
        with self._compiling:  # blocks only other runs that have new shapes
            executor = self._cached_executor(key) or self._open_executor(key)
            if executor is None:
                start = time.perf_counter()
                executor = self._newly_opened(key) or self._cache(
                    key, self._specialized(named), self._executors, self.cluster.cache_size
                )
                seconds = time.perf_counter() - start
                logger.info("%.3f s of a run compile %s for %s", seconds, self._called, key[0])
                if not in_use:
                    self._admission.add_compilation(key, seconds)
            return executor

    def _open_executor(self, key: _Key) -> ClusterRun | None:
        """Returns what an open compilation computes these sizes with; None if none holds."""
        shapes, contents = self._sizes(key)
        for made in self._opened:
            symbols = made.symbols(shapes, contents)
            if symbols is not None:
                executor = self.cluster.at(made, symbols).bind(self.inputs, self.outputs)
                return self._cache(key, executor, self._bound, _MOST_BOUND)
        return None

    def _newly_opened(self, key: _Key) -> ClusterRun | None:
        """Returns the same of a compilation that is made for these sizes and others like them."""
        if len(self._opened) >= self.cluster.cache_size:
            return None
        made = self.cluster.open(*self._sizes(key))
        if made is None:
            return None
        self._opened.append(made)
        return self._open_executor(key)

    def _sizes(self, key: _Key) -> tuple[Shapes, InputContents]:
        """Returns the shapes of the inputs, and the contents of those that determine shapes."""
        shapes = dict(zip(self.inputs, key[0], strict=True))
        known = zip(self.cluster.shape_inputs, key[1], strict=True)
        types = {value.name: value.dtype.numpy for value in self.cluster.inputs}
        arrays = {n: np.frombuffer(data, types[n]).reshape(shapes[n]) for n, data in known}
        return shapes, arrays

    def _waiting(self, key: _Key, named: Mapping[str, Array]) -> ClusterRun:
        """Returns what computes sizes that are not compiled yet, and counts its time."""
        on_cpu = self._on_cpu(f"sizes beyond the first {self.cluster.at_once} wait to be compiled")

        def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
            start = time.perf_counter()
            on_cpu(inputs, allocate, stop)
            if self._admission.add_cpu_run(key, time.perf_counter() - start):
                self._warn(named, _SIZES_CHANGE.format(self.cluster.at_once))

        return run

    def direct_runs(self) -> list[DirectRun]:
        """Returns what may run the cached shapes without this runner, the last ones first."""
        with self._lock:
            cached = list(reversed(self._executors.items()))
        record = self.cluster.record
        count = partial(record.add_direct_runs, None)
        opened = [
            replace(run, count=count, timed=record.timed)
            for made in self._opened
            for run in made.direct_runs(self.inputs, self.outputs)
        ]
        return opened + [
            replace(run, given=self._given(key), used=partial(self._cached_executor, key))
            for key, executor in cached
            if isinstance(executor, Runner)
            for run in executor.direct_runs()
        ]

    def _given(self, key: _Key) -> tuple[Place, ...]:
        """Returns the inputs that have this key."""
        shapes, contents = key
        known = dict(zip(self.cluster.shape_inputs, contents, strict=True))
        limits = {value.name: value.limit for value in self.cluster.inputs}
        return tuple(
            Place(position, shape, contents=known.get(name), most=limits.get(name, 0))
            for position, (name, shape) in enumerate(zip(self.inputs, shapes, strict=True))
        )

    def _cached_executor(self, key: _Key) -> ClusterRun | None:
        with self._lock:
            for cache in (self._bound, self._executors):
                if key in cache:
                    cache.move_to_end(key)
                    return cache[key]
        return None

    def _cache(
        self, key: _Key, executor: ClusterRun, cache: OrderedDict[_Key, ClusterRun], most: int
    ) -> ClusterRun:
        """Adds `executor` to a cache and evicts the least recently used ones; returns it."""
        with self._lock:
            cache[key] = executor
            while len(cache) > most:
                cache.popitem(last=False)
        return executor

    def _specialized(self, given: Mapping[str, Array]) -> ClusterRun:
        try:
            return self.cluster.specialize(given).bind(self.inputs, self.outputs)
        except Declined as declined:
            why = f"{declined.reason}: {declined.detail}"
        except Exception as error:  # a bug in ep-nnapi, or shapes that contradict the model
            why = f"cannot be compiled: {error}"
        self._warn(given, why)
        return self._on_cpu(why)

    def _warn(self, given: Mapping[str, Array], why: str) -> None:
        sizes = {name: array.shape for name, array in given.items()}
        logger.warning("sizes %s of %s run on the CPU provider: %s", sizes, self._called, why)

    @property
    def _called(self) -> str:
        """The cluster by its first and last node."""
        nodes = self.cluster.report.nodes
        return f"the cluster of {' to '.join(dict.fromkeys((nodes[0], nodes[-1])))}"

    def _on_cpu(self, why: str) -> ClusterRun:
        """Returns what computes the cluster's nodes on the CPU provider; its runs are on record."""
        with self._lock:
            if self._cpu is None:
                self._cpu = cpu_executor(self.cluster.cpu_model(), self.inputs, self.outputs)
        on_cpu, by, cluster = self._cpu, self.cluster.elsewhere(CPU_FALLBACK, why), self.cluster

        def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
            def compute(events: RunEvents | None) -> None:
                note_fallback(events, Fallback.CPU)
                on_cpu(inputs, allocate, stop)

            start = cluster.record.start()
            run_with_events(cluster.compiler.listeners, cluster.report, compute)
            cluster.record.add_run(by, start)

        return run
