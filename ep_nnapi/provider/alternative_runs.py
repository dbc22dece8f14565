"""Runs of an alternative of a compiled cluster: in ONNX Runtime, in LiteRT, or part by part."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ep_nnapi.epcontext.alternatives import Alternative
from ep_nnapi.epcontext.onnx_program import LOCATION
from ep_nnapi.lowering.border import Allocate, Stop
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.runtime import ExaminedDevice
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import Preferred
from ep_nnapi.provider.compiler import Compiler, Placed
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.fallback import ClusterRun
from ep_nnapi.sessions.cpu import exact_options, session_of

OpenAlternative: TypeAlias = Callable[[Sequence[str], Sequence[str]], ClusterRun]
"""Returns what runs an alternative on tensors with these names in this order."""


class GaveWay(Exception):
    """A candidate gives way; the message says why."""


def open_onnx(alternative: Alternative, weights: Array) -> OpenAlternative:
    """Opens ONNX nodes on the CPU provider, with their constants where they are."""
    options = exact_options()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_external_initializers_from_files_in_memory([LOCATION], [weights], [weights.size])
    assert alternative.data is not None
    session = session_of(alternative.data, options)
    border = alternative.border
    if {i.name for i in session.get_inputs()} != {c.name for c in border.inputs}:
        raise GaveWay("its ONNX model has other inputs")

    def opened(inputs: Sequence[str], outputs: Sequence[str]) -> ClusterRun:
        read = [c.name for c in border.inputs]
        made = {c.name: (c.dtype.numpy, c.shape) for c in border.outputs}

        def run(arrays: Sequence[Array], allocate: Allocate, _stop: Stop) -> None:
            given = dict(zip(inputs, arrays, strict=True))
            try:
                results = session.run(list(outputs), {name: given[name] for name in read})
            except Exception as error:  # which have no common base
                raise GaveWay(f"ONNX Runtime: {error}") from None
            for i, (name, result) in enumerate(zip(outputs, results, strict=True)):
                known = isinstance(result, np.ndarray) and (result.dtype, result.shape)
                if known != made[name]:
                    raise GaveWay(f"its ONNX model computes {name} in another type or shape")
                np.copyto(allocate(i, result.shape), result)

        return run

    return opened


def open_litert(
    alternative: Alternative, weights: Array, preferred: Preferred, options: Options
) -> OpenAlternative:
    """Compiles a flatbuffer for one of LiteRT's accelerators; raises NnapiError, RuntimeError."""
    from ep_nnapi.litert.device import open_runtime  # the extra
    from ep_nnapi.litert.library import Accelerator, Compiling, Library, LiteRtError

    if str(preferred) not in {device.name for device in open_runtime().accelerators}:
        raise GaveWay(f"{preferred} is not there")
    accelerator = Accelerator[preferred.name.removeprefix("LITERT_")]
    assert alternative.data is not None
    threads = options.intra_op_num_threads or len(os.sched_getaffinity(0))
    settings = Compiling(accelerator, threads, options.half, options.instances)
    try:
        model = Library().compile(alternative.data, settings, weights)
    except LiteRtError as error:
        raise GaveWay(str(error)) from None

    def opened(inputs: Sequence[str], outputs: Sequence[str]) -> ClusterRun:
        places = [list(inputs).index(port.name) for port in model.inputs]
        leaving = [list(outputs).index(port.name) for port in model.outputs]

        def run(arrays: Sequence[Array], allocate: Allocate, _stop: Stop) -> None:
            try:
                results = model.run([arrays[i] for i in places])
            except LiteRtError as error:
                raise GaveWay(str(error)) from None
            for i, result in zip(leaving, results, strict=True):
                np.copyto(allocate(i, result.shape), result)

        return run

    return opened


def part_runs(
    alternative: Alternative,
    opened: Sequence[OpenAlternative],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> ClusterRun:
    """Returns what runs the parts of an alternative one by one; tensors go by their names."""
    parts = []
    for part, bind in zip(alternative.parts, opened, strict=True):
        made = {c.name: c.dtype.numpy for c in part.border.outputs}
        read = [*dict.fromkeys(c.name for c in part.border.inputs)]
        parts.append((bind(read, [*made]), read, [*made.items()]))

    def run(arrays: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        there = dict(zip(inputs, arrays, strict=True))

        def allocated(
            made: Sequence[tuple[str, np.dtype[np.generic]]], index: int, shape: tuple[int, ...]
        ) -> Array:
            name, dtype = made[index]
            return there.setdefault(name, np.empty(shape, dtype))

        for run_part, read, made in parts:
            run_part([there[name] for name in read], partial(allocated, made), stop)
        for i, name in enumerate(outputs):
            np.copyto(allocate(i, there[name].shape), there[name])

    return run


def compiled(compiler: Compiler, lowered: Lowered) -> Placed:
    """Compiles a program; raises Declined with what the device declines, if it says so.

    It is asked only if it does not compile; first of all where a profile knows what it does not.
    """
    prepared = compiler.prepare(lowered)
    if isinstance(compiler.runtime, ExaminedDevice):
        compiler.check_supported(prepared)
    try:
        return compiler.compile(prepared)
    except Declined as failed:
        try:
            compiler.check_supported(prepared)
        except Declined as declined:
            raise (declined if declined.names else failed) from None
        raise
