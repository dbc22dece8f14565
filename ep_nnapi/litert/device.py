"""LiteRT's accelerators as NNAPI devices, and the runtime that has them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cache
from typing import NoReturn

import numpy as np

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.flat_operator import FlatTensor
from ep_nnapi.litert.library import Accelerator, CompiledModel, Compiling, Library, LiteRtError
from ep_nnapi.litert.open_model import is_open, open_session
from ep_nnapi.litert.to_tflite import convert, obstacles
from ep_nnapi.nnapi.array import Arrays
from ep_nnapi.nnapi.codes import COMPUTE, DeviceCode, ResultCode, failure
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.nnapi.host.runtime import HostRuntime, PreparedModel
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.validate import execution_order
from ep_nnapi.ort_devices.opened import NotTaken, Opened
from ep_nnapi.ort_devices.session import PreparedSession

logger = module_logger(__name__)
WRITER = "litert"
"""The device that only says what a .tflite can hold."""
_DEFAULTS = CompileOptions()
_TYPES = {
    Accelerator.CPU: DeviceCode.CPU,
    Accelerator.GPU: DeviceCode.GPU,
    Accelerator.NPU: DeviceCode.ACCELERATOR,
}
_VULKAN = "libvulkan.so.1"
_FLOAT, _HALF = 0.01, 0.1
"""How far an accelerator's results may be off, of the largest number: it is right or it is not."""


@frozen
class LiteRtDevice:
    """An accelerator of LiteRT as an NNAPI device.

    library   None: it takes what a .tflite can hold, and compiles nothing
    Float16 is computed in float32, except by the GPU in relaxed models.
    """

    library: Library | None = None
    accelerator: Accelerator = Accelerator.CPU
    feature_level: int = 8
    _opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`litert-cpu`, `litert-gpu` or `litert-npu`."""
        return WRITER if self.library is None else f"litert-{self.accelerator.name}".lower()

    @property
    def takes_sizes(self) -> bool:
        """True for the CPU, which resizes what it has compiled."""
        return self.library is not None and self.accelerator is Accelerator.CPU

    @property
    def type(self) -> DeviceCode:
        """The type as NNAPI names it."""
        return _TYPES[self.accelerator]

    @property
    def version(self) -> str:
        """The library's."""
        return "1" if self.library is None else self.library.version

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation: True if LiteRT computes it exactly, on this accelerator."""
        reasons = _reasons(model)
        if self.accelerator is Accelerator.CPU or is_open(model):
            return tuple(not reason for reason in reasons)
        return self._opened.supported(model, reasons, self._compiled)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Compile the model's .tflite; raises RuntimeFailure unless all of it is taken."""
        if self.library is None:
            return self._written(model)
        opened = self._opened.take(model)
        if opened is not None and options.instances == 1 and not options.precise:
            return opened
        try:
            return self._compiled(model, options)
        except NotTaken as reason:
            raise reason.failure_of(self.name) from None

    def _written(self, model: Model) -> PreparedModel:
        reason = next(filter(None, obstacles(model)), None)
        if reason is not None:
            raise NotTaken(reason).failure_of(self.name)
        return WrittenModel()

    def _compiled(self, model: Model, options: CompileOptions = _DEFAULTS) -> PreparedSession:
        assert self.library is not None
        threads = options.threads or len(os.sched_getaffinity(0))
        half = model.relaxed and not options.precise
        settings = Compiling(self.accelerator, threads, half, options.instances)
        content = convert(model)
        compiled = self.library.compile(content, settings)
        if self.accelerator is not Accelerator.CPU:
            _check(compiled, self.library.compile(content, Compiling()), half=half)
        return open_session(compiled, model) if is_open(model) else PreparedSession(compiled)


def _check(compiled: CompiledModel, on_cpu: CompiledModel, *, half: bool) -> None:
    """Raise LiteRtError unless an accelerator computes what LiteRT's CPU does, of random numbers.

    A GPU whose driver refuses a shader says so on stderr, and returns what is in its memory.
    """
    random = np.random.default_rng(0)
    feeds = [
        random.uniform(-1, 1, port.shape).astype(port.dtype)  # integers, which may be indexes: 0
        for port in compiled.inputs
    ]
    for got, want in zip(compiled.run(feeds), on_cpu.run(feeds), strict=True):
        wanted = np.nan_to_num(want.astype(float))
        near = (_HALF if half else _FLOAT) * np.abs(wanted).max(initial=1)
        if not np.allclose(np.nan_to_num(got.astype(float)), wanted, 0, near):
            raise LiteRtError("it computes other numbers than LiteRT's CPU")


class WrittenModel:
    """A model that a .tflite can hold."""

    def execute(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> NoReturn:
        """Raise RuntimeFailure."""
        raise failure(COMPUTE, ResultCode.BAD_STATE, "the .tflite is written, not compiled")


class LiteRtRuntime(HostRuntime):
    """A runtime whose devices are LiteRT's accelerators."""

    def __init__(self, library: Library | None = None) -> None:
        """Create the runtime; without a library its device only says what can be written."""
        self.accelerators = (LiteRtDevice(),) if library is None else tuple(_devices(library))
        super().__init__(self.accelerators)

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """The reasons why LiteRT does not compute these operations."""
        found = _reasons(model)
        of_devices = "the library does not compile it for this accelerator"
        return "; ".join(dict.fromkeys(found[i] or of_devices for i in declined))


def _reasons(model: Model) -> list[str]:
    """For each operation why it is not taken; "" if it may be.

    A library computes what depends on constants alone when it compiles, into memory of its own, and
    leaves a caller's output as it was.
    """
    constant = {i for i, operand in enumerate(model.operands) if operand.value is not None}
    found = list(obstacles(model))
    for n in execution_order(model):
        operation = model.operations[n]
        if constant.issuperset(operation.inputs):
            constant.update(operation.outputs)
            if not constant.isdisjoint(model.outputs):
                found[n] = found[n] or "its output would be a constant"
                constant.difference_update(model.outputs)
    return found


@cache
def open_runtime(path: str | None = None) -> LiteRtRuntime:
    """The runtime of a libLiteRt.so; None: that of the package ai-edge-litert.

    Raises OptionError if it cannot be loaded or is older than 2.1.6.
    """
    return LiteRtRuntime(Library(path))


def _devices(library: Library) -> Iterator[LiteRtDevice]:
    yield LiteRtDevice(library)
    for accelerator in library.accelerators() & ~Accelerator.CPU:
        device = LiteRtDevice(library, accelerator)
        if accelerator is Accelerator.GPU and not _has_vulkan():
            continue
        try:
            library.compile(_probe(), Compiling(accelerator))
        except LiteRtError as reason:
            logger.info("%s is not there: %s", device.name, reason)
        else:
            yield device


def _has_vulkan() -> bool:
    """True where LiteRT's GPU library finds a loader; without one it complains on stderr."""
    try:
        return bool(ctypes.CDLL(_VULKAN))
    except OSError:
        return hasattr(sys, "getandroidapilevel")  # has OpenCL


def _probe() -> memoryview:
    """A small model, which every accelerator that works takes."""
    graph, float32 = FlatGraph(), np.dtype(np.float32)
    x, y = (graph.tensor(FlatTensor(float32, (1, 8, 8, 4))) for _ in range(2))
    graph.operator("RELU", [x], [y])
    return graph.build({"x": x}, {"y": y})
