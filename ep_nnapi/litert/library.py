"""libLiteRt.so through its C API: its accelerators, and models compiled for one of them.

What computes is native/litert.c; Python only compiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.litert import package
from ep_nnapi.litert.flat_graph import WEIGHT_ALIGNMENT
from ep_nnapi.native._native import ffi, lib
from ep_nnapi.native.calls import done
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.host.execution_plan import block
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.ort_devices.opened import NotTaken

if TYPE_CHECKING:
    from ep_nnapi.native._native import CData, Tensor

_TYPES = {
    lib.CTX_LITERT_FLOAT32: "float32",
    lib.CTX_LITERT_INT32: "int32",
    lib.CTX_LITERT_UINT8: "uint8",
    lib.CTX_LITERT_INT64: "int64",
    lib.CTX_LITERT_BOOL: "bool",
    lib.CTX_LITERT_INT16: "int16",
    lib.CTX_LITERT_INT8: "int8",
    lib.CTX_LITERT_FLOAT16: "float16",
    lib.CTX_LITERT_FLOAT64: "float64",
}


class Accelerator(IntFlag):
    """What computes a model. Source: LiteRtHwAccelerators."""

    CPU = 1
    GPU = 2
    NPU = 4


class LiteRtError(NotTaken):
    """LiteRT fails, or does not take a model; the message is one sentence."""


@frozen
class Compiling:
    """How a model is compiled.

    threads       of one run on the CPU
    half          the GPU may compute float32 as float16
    instances     compiled models at most: one thread at a time runs each, and each packs weights
    weight_cache  file that keeps the CPU's packed weights; None: none
    """

    accelerator: Accelerator = Accelerator.CPU
    threads: int = 1
    half: bool = False
    instances: int = 1
    weight_cache: str | None = None


class Library:
    """A libLiteRt.so, loaded for the life of the process; thread-safe."""

    def __init__(self, path: str | None = None) -> None:
        """Load the library; None: that of the package ai-edge-litert.

        Raises OptionError if it cannot be loaded, is older than 2.1.6 or another library.
        """
        found, self.version = package.library() if path is None else (path, "unknown")
        self._struct = ffi.new("ctx_litert **")
        try:
            done(LiteRtError, lib.ctx_litert_open, found.encode(), self._struct)
        except LiteRtError as error:
            raise OptionError(f"runtime: {error}") from None

    def accelerators(self) -> Accelerator:
        """Those of which the library has an implementation; whether they work is seen later."""
        mask = ffi.new("int *")
        done(LiteRtError, lib.ctx_litert_accelerators, self._struct[0], mask)
        return Accelerator(mask[0] & (Accelerator.CPU | Accelerator.GPU | Accelerator.NPU))

    def compile(
        self,
        model: bytes | bytearray | memoryview,
        settings: Compiling,
        weights: Array | None = None,
    ) -> CompiledModel:
        """Compile a .tflite for an accelerator, which takes all of it; raises LiteRtError.

        weights   what the model counts as behind it, from the next multiple of 64 bytes on; those
                  of a memory-mapped file are not copied
        """
        behind = np.zeros(0, np.uint8) if weights is None else weights
        held = ffi.from_buffer(model), ffi.from_buffer(behind)
        flatbuffer = ffi.new("ctx_flatbuffer *")
        flatbuffer.model, flatbuffer.weights = held
        flatbuffer.size, flatbuffer.weights_size = len(model), behind.size
        flatbuffer.mapped = isinstance(behind.base, np.memmap)
        cache = settings.weight_cache
        path = ffi.NULL if cache is None else ffi.new("char[]", cache.encode())
        options = ffi.new("ctx_litert_options *", {**asdict(settings), "weight_cache": path})
        out = ffi.new("ctx_litert_model **")
        done(LiteRtError, lib.ctx_litert_compile, self._struct[0], flatbuffer, options, out)
        return CompiledModel(ffi.gc(out[0], lib.ctx_litert_free))


@frozen
class Port:
    """An input or output of a model."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]


class NoOptions:
    """Options of a run, which LiteRT cannot end."""

    terminate = False


class CompiledModel:
    """A compiled .tflite, as a `DeviceSession` and a `runtime.Program`; thread-safe.

    Runs wait for a free instance.

    inputs, outputs   in the order of its signature
    address, runner   of the model, and of the C function that runs it
    """

    def __init__(self, struct: CData) -> None:
        self._struct = struct
        counts = ffi.new("uint32_t[2]")
        tensors = lib.ctx_litert_tensors(struct, counts, counts + 1)
        ports = [_port(tensors[i]) for i in range(counts[0] + counts[1])]
        self.inputs, self.outputs = tuple(ports[: counts[0]]), tuple(ports[counts[0] :])
        self.address, self.runner = int(ffi.cast("uintptr_t", struct)), lib.runner()

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array | None] = (),
        options: object = None,
        *,
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> list[Array]:
        """Return the outputs, in the arrays of `outputs` that have their shapes.

        inputs   of the ports' types and shapes
        shapes   of the outputs of a model of open sizes, which has -1 for them
        Raises LiteRtError.
        """
        given = [np.asarray(array, order="C") for array in inputs]
        places = [*outputs, *[None] * (len(self.outputs) - len(outputs))]
        ports = self.outputs
        if shapes is not None:
            ports = tuple(replace(p, shape=s) for p, s in zip(ports, shapes, strict=True))
        results = [
            out if out is not None and _is_place(out, port, given) else _array_of(port)
            for out, port in zip(places, ports, strict=True)
        ]
        read, written = _pointers(given), _pointers(results)
        if shapes is None:
            done(LiteRtError, lib.ctx_litert_run, self._struct, read, written)
        else:
            sizes = ffi.new("int32_t[]", [n for a in (*given, *results) for n in a.shape] or [0])
            done(LiteRtError, lib.ctx_litert_run_sized, self._struct, sizes, read, written)
        return results

    def run_options(self) -> NoOptions:
        """Return options of a run, as `DeviceSession.run_options`."""
        return NoOptions()


@frozen
class FlatModel:
    """A compiled .tflite whose inputs and outputs have names."""

    compiled: CompiledModel

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(port.name for port in self.compiled.inputs)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; raises ModelError if LiteRT cannot compute them."""
        given = [np.asarray(feeds[name]) for name in self.inputs]
        for port, array in zip(self.compiled.inputs, given, strict=True):
            if (array.dtype, array.shape) != (port.dtype, port.shape):
                raise ModelError(
                    f"LiteRT cannot run it: input {port.name} is {port.dtype} {list(port.shape)}, "
                    f"{array.dtype} {list(array.shape)} is given"
                )
        try:
            results = self.compiled.run(given)
        except LiteRtError as error:
            raise ModelError(f"LiteRT cannot run it: {error}") from None
        return {port.name: a for port, a in zip(self.compiled.outputs, results, strict=True)}


def load(model: bytes | bytearray | memoryview | Path, threads: int = 1) -> FlatModel:
    """A flatbuffer that the CPU of the package's library runs; a file's is not copied.

    Raises ModelError if LiteRT does not load it, OptionError without the extra.
    """
    behind = None
    if isinstance(model, Path):
        whole = np.memmap(model, np.uint8, "r")
        model, behind = whole[:WEIGHT_ALIGNMENT].tobytes(), whole[WEIGHT_ALIGNMENT:]
    try:
        return FlatModel(Library().compile(model, Compiling(threads=threads), behind))
    except LiteRtError as error:
        raise ModelError(f"LiteRT does not load it: {error}") from None


def _port(tensor: Tensor) -> Port:
    shape = tuple(tensor.dims[0 : tensor.rank])
    return Port(ffi.string(tensor.name).decode(), np.dtype(_TYPES[tensor.type]), shape)


def _is_place(out: Array, port: Port, inputs: Sequence[Array]) -> bool:
    return (
        out.shape == port.shape
        and out.dtype == port.dtype
        and not any(np.may_share_memory(out, array) for array in inputs)
    )


def _array_of(port: Port) -> Array:
    """An array for an output, where LiteRT writes into it without a copy."""
    size = int(np.prod(port.shape, dtype=np.int64)) * port.dtype.itemsize
    return block(size).view(port.dtype).reshape(port.shape)


def _pointers(arrays: Sequence[Array]) -> CData:
    made: CData = ffi.new("void *[]", [ffi.cast("void *", array.ctypes.data) for array in arrays])
    return made
