"""Objects of the C API in every state that the NDK tells apart.

The model is output[2] = input0[2] + input1[2], activation constant. All handles are numbers.
"""

import ctypes as c
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.spec import ADD
from tests.capi.client import OperandType, listed, operand_type, pointer, ref, scalar
from tests.capi.maker import OK, Maker

READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
Step = tuple[int, Sequence[int], Sequence[int]]
"""An operation: its code, its inputs and its outputs."""


class World(Maker):
    """Objects in states, each made anew by asking for it."""

    def freed(self, kind: str) -> int:
        """A handle of an object that is no more; of devices, which cannot be freed, any number."""
        if kind == "Device":
            return 0xDEAD
        handle = self.of(kind)
        getattr(self.nn, f"{kind}_free")(handle)
        return handle

    def other(self, kind: str) -> int:
        """A live handle of another kind."""
        return self.of("Memory" if kind != "Memory" else "Model")

    def of(self, kind: str) -> int:
        """An object of the kind."""
        make: dict[str, Callable[[], int]] = {
            "Model": lambda: self.finished_model,
            "Compilation": self.ready,
            "Execution": lambda: self.computed_execution,
            "Burst": self.burst,
            "Event": lambda: self.event,
            "MemoryDesc": lambda: self.finished_descriptor,
            "Memory": self.memory,
        }
        return make[kind]()

    # models

    def model(
        self, dims: tuple[int, ...] = (2,), activation: int | None = 0, identified: bool = True
    ) -> int:
        """An open model with all its operands, its operation, its inputs and outputs."""
        tensor = operand_type(dimensions=dims)
        model = self.model_of([tensor, tensor, scalar(), tensor])
        if activation is not None:
            value = c.c_int32(activation)
            self.check("Model_setOperandValue", model, 2, ref(value), 4)
        assert self.add(model) == OK
        if identified:
            self.identify(model, [0, 1] if activation is not None else [0, 1, 2], [3])
        return model

    def model_of(
        self,
        operands: Sequence[OperandType],
        *steps: Step,
        ends: tuple[Sequence[int], Sequence[int]] | None = None,
        models: Mapping[int, int] = MappingProxyType({}),
    ) -> int:
        """A model of operands and operations; `models` are the finished ones of MODEL operands.

        ends   inputs and outputs; with them it is finished
        """
        model = self.make("Model_create")
        for described in operands:
            self.check("Model_addOperand", model, ref(described))
        for index, inner in models.items():
            self.check("Model_setOperandValueFromModel", model, index, inner)
        for step in steps:
            assert self.add(model, *step) == OK
        if ends is not None:
            self.identify(model, *ends)
            self.check("Model_finish", model)
        return model

    def add(self, model: int, code: int = ADD.code, *ends: Sequence[int]) -> int:
        """Adds an operation, of inputs and outputs; returns the result code."""
        inputs, outputs = ends or ((0, 1, 2), (3,))
        return self.nn.Model_addOperation(model, code, *listed(inputs, outputs))

    def identify(self, model: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.check("Model_identifyInputsAndOutputs", model, *listed(inputs, outputs))

    @property
    def open_model(self) -> int:
        return self.model()

    @property
    def anonymous_model(self) -> int:
        """Its inputs and outputs are not named yet."""
        return self.model(identified=False)

    @property
    def empty_model(self) -> int:
        return self.make("Model_create")

    def finished(self, **options: object) -> int:
        model = self.model(**options)
        self.check("Model_finish", model)
        return model

    @property
    def finished_model(self) -> int:
        return self.finished()

    @property
    def invalid_model(self) -> int:
        model = self.make("Model_create")
        assert self.nn.Model_finish(model) != OK
        return model

    def typed_model(self, code: int = OperandCode.MODEL, dims: tuple[int, ...] = ()) -> int:
        """An open model with one operand."""
        scale = 1.0 if code == OperandCode.TENSOR_QUANT8_ASYMM else 0.0
        return self.model_of([operand_type(code, dims, scale)])

    # compilations

    def compilation(self, model: int | None = None, for_device: bool = True) -> int:
        model = self.finished_model if model is None else model
        if not for_device:
            return self.make("Compilation_create", model)
        return self.make("Compilation_createForDevices", model, self.devices(self.device), 1)

    @property
    def open_compilation(self) -> int:
        return self.compilation()

    @property
    def free_choice_compilation(self) -> int:
        return self.compilation(for_device=False)

    def ready(self, **options: object) -> int:
        compilation = self.compilation(**options)
        self.check("Compilation_finish", compilation)
        return compilation

    @property
    def ready_compilation(self) -> int:
        return self.ready()

    @property
    def failed_compilation(self) -> int:
        compilation = self.compilation()
        COMPILATIONS[compilation].finished = True
        return compilation

    # executions

    def execution(self, compilation: int | None = None) -> int:
        compilation = self.ready() if compilation is None else compilation
        return self.make("Execution_create", compilation)

    @property
    def fresh_execution(self) -> int:
        return self.execution()

    @property
    def free_choice_execution(self) -> int:
        return self.execution(self.ready(for_device=False))

    def bind(
        self,
        execution: int,
        *inputs: np.ndarray | None,
        out: np.ndarray | None = None,
        described: OperandType | None = None,
    ) -> int:
        """Sets arrays as inputs, of type `described`, and as the output; None is set elsewhere."""
        for i, array in enumerate(inputs):
            if array is not None:
                given = ref(described), pointer(array), array.nbytes
                self.check("Execution_setInput", execution, i, *given)
        if out is not None:
            self.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
        return execution

    def set_all(self, execution: int) -> int:
        return self.bind(execution, self.a, self.b, out=self.out)

    @property
    def set_execution(self) -> int:
        return self.set_all(self.fresh_execution)

    @property
    def measured_execution(self) -> int:
        """Computed, with its time measured."""
        execution = self.set_execution
        self.check("Execution_setMeasureTiming", execution, True)
        self.check("Execution_compute", execution)
        return execution

    @property
    def computed_execution(self) -> int:
        execution = self.set_execution
        self.check("Execution_compute", execution)
        return execution

    @property
    def reusable_execution(self) -> int:
        """Computed once, may be again."""
        execution = self.set_execution
        self.check("Execution_setReusable", execution, True)
        self.check("Execution_compute", execution)
        return execution

    @property
    def failed_execution(self) -> int:
        execution = self.fresh_execution
        assert self.nn.Execution_compute(execution) != OK
        return execution

    @property
    def dynamic_execution(self) -> int:
        """All set, the output's dimensions unknown."""
        execution = self.execution(self.ready(model=self.finished(dims=(0,))))
        return self.bind(execution, self.a, self.b, out=self.out, described=operand_type())

    @contextmanager
    def slow(
        self,
        compilation: int,
        error: BaseException | None = None,
        begun: threading.Event | None = None,
    ) -> Iterator[threading.Event]:
        """Until the event is set the compilation's executions wait; then they go on, or fail."""
        builder, go = COMPILATIONS[compilation], threading.Event()
        kept = builder.run

        def run(*arguments: object) -> object:
            if begun is not None:
                begun.set()
            go.wait(30)
            if error is not None:
                raise error
            return kept(*arguments)

        builder.run = run
        try:
            yield go
        finally:
            go.set()
            builder.run = kept

    @property
    def running_execution(self) -> int:
        """Being computed until the world is closed."""
        compilation = self.ready()
        execution = self.set_all(self.execution(compilation))
        held = self.slow(compilation)
        go = held.__enter__()
        self.make("Execution_startCompute", execution)
        self._made.append((lambda _: (go.set(), held.__exit__(None, None, None)), 0))
        return execution

    # bursts, events

    def burst(self, compilation: int | None = None) -> int:
        return self.make("Burst_create", self.ready() if compilation is None else compilation)

    @property
    def event(self) -> int:
        return self.make("Execution_startCompute", self.set_execution)

    @property
    def failed_event(self) -> int:
        """Of an execution that waited for nothing and failed."""
        compilation = self.ready()
        execution = self.set_all(self.execution(compilation))
        with self.slow(compilation, ValueError("as the test wants")) as go:
            event = self.make("Execution_startCompute", execution)
            go.set()
            assert self.nn.Event_wait(event) != OK
        return event

    # memories

    def file(self, data: bytes) -> int:
        """A descriptor of a file in memory."""
        fd = os.memfd_create("world")
        os.write(fd, data)
        self._made.append((os.close, fd))
        return fd

    def memory(
        self, data: bytes = bytes(8), protect: int = mmap.PROT_READ | mmap.PROT_WRITE
    ) -> int:
        return self.make("Memory_createFromFd", len(data), protect, self.file(data), 0)

    @property
    def read_only_memory(self) -> int:
        return self.memory(protect=mmap.PROT_READ)

    def descriptor(self, compilation: int | None = None, outward: bool = False) -> int:
        """An open descriptor with one role."""
        desc = self.make("MemoryDesc_create")
        add = "MemoryDesc_addOutputRole" if outward else "MemoryDesc_addInputRole"
        self.check(add, desc, self.ready() if compilation is None else compilation, 0, 1.0)
        return desc

    @property
    def empty_descriptor(self) -> int:
        return self.make("MemoryDesc_create")

    @property
    def finished_descriptor(self) -> int:
        desc = self.descriptor()
        self.check("MemoryDesc_finish", desc)
        return desc

    def device_memory(self, compilation: int | None = None, outward: bool = False) -> int:
        """A device's memory without a value."""
        desc = self.descriptor(compilation, outward)
        self.check("MemoryDesc_finish", desc)
        return self.make("Memory_createFromDesc", desc)


def waited(w: World, code: int, event: c.c_void_p) -> int:
    """The code of what was to be started, or else of its end."""
    code = code or w.nn.Event_wait(event)
    w.nn.Event_free(event)
    return code


def synchronous(w: World, execution: int, _: int) -> int:
    return w.nn.Execution_compute(execution)


def asynchronous(w: World, execution: int, _: int) -> int:
    event = c.c_void_p()
    return waited(w, w.nn.Execution_startCompute(execution, ref(event)), event)


def burst(w: World, execution: int, compilation: int) -> int:
    return w.nn.Execution_burstCompute(execution, w.burst(compilation))


def fenced(w: World, execution: int, _: int) -> int:
    event = c.c_void_p()
    start = w.nn.Execution_startComputeWithDependencies
    return waited(w, start(execution, None, 0, 0, ref(event)), event)


WAYS = [synchronous, asynchronous, burst, fenced]
Way = Callable[[World, int, int], int]
