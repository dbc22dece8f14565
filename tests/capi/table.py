"""Results of each function in each state: the NDK's documentation as a table.

A row is a function, a state, the code that it returns then, and arguments that are in that state.
The codes are Android's; a comment says so where one is ours.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ep_nnapi.nnapi.codes import OperandCode, PreferenceCode, PriorityCode, ResultCode
from ep_nnapi.nnapi.spec import ADD, F32, LOGISTIC, Q8, Q8C
from tests.capi.client import (
    channel_params,
    listed,
    operand_type,
    pointer,
    ref,
    scalar,
    u32s,
)
from tests.capi.world import World

NO_ERROR, UNEXPECTED_NULL = ResultCode.NO_ERROR, ResultCode.UNEXPECTED_NULL
BAD_DATA, BAD_STATE = ResultCode.BAD_DATA, ResultCode.BAD_STATE
OP_FAILED, UNMAPPABLE = ResultCode.OP_FAILED, ResultCode.UNMAPPABLE
OUT = c.c_uint64(0)
DIMS = u32s([0] * 8)
DATA = (c.c_uint8 * 4096)()
HUGE = 0xFFFFFFFF
TOKEN = bytes(32)

Arguments = Callable[[World], tuple[object, ...]]


class Later:
    """What a world makes when a row is tested; so are its members, and what they return."""

    def __init__(self, make: Callable[[World], object]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Later:
        return Later(lambda w: getattr(self._make(w), name))

    def __call__(self, *arguments: object, **named: object) -> Later:
        return Later(lambda w: self._make(w)(*made(arguments, w), **named))


def made(arguments: tuple[object, ...], world: World) -> tuple[object, ...]:
    return tuple(a._make(world) if isinstance(a, Later) else a for a in arguments)


class Row(NamedTuple):
    function: str
    state: str
    code: ResultCode
    arguments: Arguments

    @property
    def name(self) -> str:
        return f"{self.function}-{self.state}"


ROWS: list[Row] = []
W = Later(lambda world: world)
A = Later(lambda world: pointer(world.a))


def row(function: str, state: str, code: ResultCode, *given: object) -> None:
    """Appends a row; `given` are the arguments, or one function of the world that makes them."""
    alone = given[0] if len(given) == 1 else None
    one = alone if callable(alone) and not isinstance(alone, Later) else None
    ROWS.append(Row(function, state, code, one or (lambda w: made(given, w))))


def out() -> object:
    """Memory into which a function may write."""
    return ref(OUT)


# The runtime and its devices

row("getDeviceCount", "any", NO_ERROR, out())
row("getDevice", "first", NO_ERROR, 0, out())
row("getDevice", "past the last", BAD_DATA, 1000, out())
for name in ("getName", "getVersion", "getType", "getFeatureLevel"):
    row(f"Device_{name}", "any", NO_ERROR, W.device, out())
row("Device_getExtensionSupport", "any", NO_ERROR, W.device, b"com.example", out())
row("Device_wait", "any", NO_ERROR, W.device)


# Extensions: none is known here

row("Model_getExtensionOperandType", "any", BAD_DATA, W.open_model, b"x.y", 0, out())
row("Model_getExtensionOperationType", "any", BAD_DATA, W.open_model, b"x.y", 0, out())
row("Model_setOperandExtensionData", "own type", BAD_DATA, W.open_model, 0, DATA, 4)
row("Model_setOperandExtensionData", "no operand", BAD_DATA, W.open_model, 9, DATA, 4)
row("Model_setOperandExtensionData", "finished", BAD_STATE, W.finished_model, 0, DATA, 4)
compilation_attribute = partial(row, "Compilation_addExtensionAttribute")
compilation_attribute("open", BAD_DATA, W.open_compilation, b"x.y", 0, DATA, 4)
compilation_attribute("finished", BAD_STATE, W.ready_compilation, b"x.y", 0, DATA, 4)
execution_attribute = partial(row, "Execution_addExtensionAttribute")
execution_attribute("fresh", BAD_DATA, W.fresh_execution, b"x.y", 0, DATA, 4)
execution_attribute("computed", BAD_STATE, W.computed_execution, b"x.y", 0, DATA, 4)


# Models: adding operands


def add_operand(state: str, code: ResultCode, described: object) -> None:
    row("Model_addOperand", state, code, W.empty_model, ref(described))


row("Model_create", "any", NO_ERROR, out())
add_operand("a tensor", NO_ERROR, operand_type())
add_operand("unknown rank", NO_ERROR, operand_type(dimensions=()))
add_operand("an unknown dimension", NO_ERROR, operand_type(dimensions=(0, 2)))
add_operand("the deprecated OEM scalar", NO_ERROR, scalar(10000))
add_operand("the deprecated OEM tensor", NO_ERROR, operand_type(10001, (4,)))
add_operand("no such type", BAD_DATA, operand_type(16))
add_operand("a vendor extension's type", BAD_DATA, operand_type(0x10003))
add_operand("a negative type", BAD_DATA, operand_type(-1))
add_operand("a scalar with dimensions", BAD_DATA, operand_type(OperandCode.INT32, (2,)))
add_operand("a scalar with a scale", BAD_DATA, operand_type(OperandCode.INT32, (), 1.0))
add_operand("a float tensor with a scale", BAD_DATA, operand_type(F32, (2,), 1.0))
add_operand("scale 0", BAD_DATA, operand_type(Q8, (2,), 0.0))
add_operand("a negative scale", BAD_DATA, operand_type(Q8, (2,), -1.0))
add_operand("zero point 255", NO_ERROR, operand_type(Q8, (2,), 1.0, 255))
add_operand("zero point 256", BAD_DATA, operand_type(Q8, (2,), 1.0, 256))
add_operand("2^32 - 4 bytes", NO_ERROR, operand_type(F32, (2**30 - 1,)))
add_operand("2^32 bytes", BAD_DATA, operand_type(F32, (2**30,)))
add_operand("a product above 2^64", BAD_DATA, operand_type(F32, (5, 4, 4, 786433, 5, 3, 16777216)))
row("Model_addOperand", "finished", BAD_STATE, W.finished_model, ref(operand_type()))
row("Model_addOperand", "invalid", BAD_STATE, W.invalid_model, ref(operand_type()))


def changed(**fields: object) -> Arguments:
    """A model to add to, and a type with fields that contradict each other."""

    def arguments(w: World) -> tuple[object, ...]:
        described = operand_type()
        for name, value in fields.items():
            setattr(described, name, value)
        return w.empty_model, ref(described)

    return arguments


row("Model_addOperand", "rank 1, dimensions null", BAD_DATA, changed(dimensions=None))
row("Model_addOperand", "rank 0, dimensions given", BAD_DATA, changed(dimensionCount=0))
row("Model_addOperand", "a rank nobody has", BAD_DATA, changed(dimensionCount=HUGE))

# Models: constants


set_value = partial(row, "Model_setOperandValue")


def value(state: str, code: ResultCode, model: Later, index: int, n: int) -> None:
    set_value(state, code, model, index, DATA, n)


def tensor_model(*dims: int) -> Later:
    return W.typed_model(F32, dims)


value("exact length", NO_ERROR, tensor_model(2), 0, 8)
value("128 bytes", NO_ERROR, tensor_model(32), 0, 128)
value("132 bytes", NO_ERROR, tensor_model(33), 0, 132)
value("one byte less", BAD_DATA, tensor_model(2), 0, 7)
value("one byte more", BAD_DATA, tensor_model(2), 0, 9)
value("length 0", BAD_DATA, tensor_model(2), 0, 0)
value("an unknown dimension", BAD_DATA, tensor_model(0, 2), 0, 8)
value("unknown rank", BAD_DATA, tensor_model(), 0, 8)
value("a MODEL operand", BAD_DATA, W.typed_model(), 0, 8)
value("an OEM scalar of any length", NO_ERROR, W.typed_model(10000), 0, 20)
value("an OEM scalar of length 0", BAD_DATA, W.typed_model(10000), 0, 0)
value("an OEM scalar of more than an operand", BAD_DATA, W.typed_model(10000), 0, 2**32)
value("an OEM scalar of more than a buffer has", BAD_DATA, W.typed_model(10000), 0, 2**63)
value("an OEM tensor", NO_ERROR, W.typed_model(10001, (4,)), 0, 4)
value("index = count", BAD_DATA, tensor_model(2), 1, 8)
value("index -1", BAD_DATA, tensor_model(2), -1, 8)
value("finished", BAD_STATE, W.finished_model, 2, 4)
set_value("left out", NO_ERROR, W.typed_model(F32, (2,)), 0, None, 0)
set_value("null with a length", UNEXPECTED_NULL, W.typed_model(F32, (2,)), 0, None, 8)


set_value_from_memory = partial(row, "Model_setOperandValueFromMemory")


def from_memory(state: str, code: ResultCode, index: int, offset: int, length: int) -> None:
    model, memory = W.typed_model(F32, (1,)), W.memory(bytes(20))
    set_value_from_memory(state, code, model, index, memory, offset, length)


from_memory("inside", NO_ERROR, 0, 16, 4)
from_memory("past the end", BAD_DATA, 0, 17, 4)
from_memory("offset past the end", BAD_DATA, 0, 21, 4)
from_memory("an offset that wraps around", BAD_DATA, 0, 2**64 - 1, 4)
from_memory("wrong length", BAD_DATA, 0, 0, 20)
from_memory("index out of range", BAD_DATA, 1, 0, 4)
set_value_from_memory(
    "an OEM scalar, whose length nobody knows",
    BAD_DATA,
    W.typed_model(10000),
    0,
    W.memory(bytes(20)),
    0,
    20,
)
set_value_from_memory("finished", BAD_STATE, W.finished_model, 2, W.memory(), 0, 4)
set_value_from_memory(
    "a device's memory", BAD_DATA, W.typed_model(F32, (2,)), 0, W.device_memory(), 0, 8
)

set_value_from_model = partial(row, "Model_setOperandValueFromModel")
set_value_from_model("finished value", NO_ERROR, W.typed_model(), 0, W.finished_model)
set_value_from_model("unfinished value", BAD_STATE, W.typed_model(), 0, W.open_model)
set_value_from_model("invalid value", BAD_STATE, W.typed_model(), 0, W.invalid_model)
set_value_from_model("no MODEL operand", BAD_DATA, W.typed_model(F32, (2,)), 0, W.finished_model)
set_value_from_model("index out of range", BAD_DATA, W.typed_model(), 1, W.finished_model)
set_value_from_model("finished", BAD_STATE, W.finished_model, 0, W.finished_model)


set_channels = partial(row, "Model_setOperandSymmPerChannelQuantParams")


def channels(state: str, code: ResultCode, dim: int, scales: list[float]) -> None:
    given = ref(channel_params(dim, scales))
    set_channels(state, code, W.typed_model(Q8C, (2, 3)), 0, given)


channels("a scale each", NO_ERROR, 1, [0.5, 0.25, 1.0])
channels("too few", BAD_DATA, 1, [0.5, 0.25])
channels("too many", BAD_DATA, 0, [0.5, 0.25, 1.0])
channels("no such dimension", BAD_DATA, 2, [0.5, 0.25, 1.0])
channels("a scale of 0", BAD_DATA, 0, [0.5, 0.0])
channels("a negative scale", BAD_DATA, 0, [0.5, -1.0])
set_channels(
    "another type", BAD_DATA, W.typed_model(F32, (2,)), 0, ref(channel_params(0, [1.0, 1.0]))
)
set_channels(
    "index out of range",
    BAD_DATA,
    W.typed_model(Q8C, (2,)),
    1,
    ref(channel_params(0, [1.0, 1.0])),
)
set_channels("finished", BAD_STATE, W.finished_model, 0, ref(channel_params(0, [1.0, 1.0])))


# Models: operations, inputs and outputs, the end


add_operation = partial(row, "Model_addOperation")


def operation(state: str, code: ResultCode, op: int, inputs: list[int], outputs: list[int]) -> None:
    add_operation(state, code, W.open_model, op, *listed(inputs, outputs))


operation("fitting operands", NO_ERROR, ADD.code, [0, 1, 2], [3])
operation("no such operation", BAD_DATA, 106, [0, 1, 2], [3])
operation("operation -1", BAD_DATA, -1, [0, 1, 2], [3])
operation("a vendor extension's operation", BAD_DATA, 0x10000, [0, 1, 2], [3])
operation("the deprecated OEM operation", NO_ERROR, 10000, [0, 1, 2], [3])
operation("an input less", BAD_DATA, ADD.code, [0, 1], [3])
operation("an input more", BAD_DATA, ADD.code, [0, 1, 2, 2], [3])
operation("a scalar for a tensor", BAD_DATA, ADD.code, [0, 2, 2], [3])
operation("an output more", BAD_DATA, ADD.code, [0, 1, 2], [3, 3])
operation("index = count", BAD_DATA, ADD.code, [0, 1, 4], [3])
operation("no input", BAD_DATA, ADD.code, [], [3])
operation("no output", BAD_DATA, ADD.code, [0, 1, 2], [])
operation("a vendor's, of nothing", NO_ERROR, 10000, [], [])
add_operation(
    "a count nobody has", BAD_DATA, W.open_model, ADD.code, HUGE, u32s([0, 1, 2]), 1, u32s([3])
)
add_operation("finished", BAD_STATE, W.finished_model, ADD.code, 3, u32s([0, 1, 2]), 1, u32s([3]))


identify_inputs_and_outputs = partial(row, "Model_identifyInputsAndOutputs")


def identify(state: str, code: ResultCode, inputs: list[int], outputs: list[int]) -> None:
    identify_inputs_and_outputs(state, code, W.anonymous_model, *listed(inputs, outputs))


def identified(*calls: tuple[list[int], list[int]]) -> Later:
    """A model whose inputs and outputs have been named before, successfully or not."""

    def model(w: World) -> int:
        made = w.anonymous_model
        for inputs, outputs in calls:
            w.nn.Model_identifyInputsAndOutputs(made, *listed(inputs, outputs))
        return made

    return Later(model)


identify("in any order", NO_ERROR, [1, 0], [3])
identify("no inputs", NO_ERROR, [], [3])
identify("no outputs", NO_ERROR, [0, 1], [])
identify("an input is an output", BAD_DATA, [0, 1], [3, 0])
identify("an input twice", BAD_DATA, [0, 1, 0], [3])
identify("an output twice", BAD_DATA, [0, 1], [3, 3])
identify("a constant", BAD_DATA, [0, 1, 2], [3])
identify("index = count", BAD_DATA, [0, 4], [3])
for state, before in (
    ("again", ([0, 1], [3])),
    ("one of them again", ([0], [3])),
    ("again after a failure", ([0, 1, 2], [3])),
):
    identify_inputs_and_outputs(state, BAD_DATA, identified(before), 2, u32s([0, 1]), 1, u32s([3]))
identify_inputs_and_outputs("finished", BAD_STATE, W.finished_model, 2, u32s([0, 1]), 1, u32s([3]))
row("Model_relaxComputationFloat32toFloat16", "open", NO_ERROR, W.open_model, True)
row("Model_relaxComputationFloat32toFloat16", "finished", BAD_STATE, W.finished_model, False)


def cyclic(w: World) -> tuple[object, ...]:
    """4 = LOGISTIC(5), 5 = LOGISTIC(4)."""
    model = w.open_model
    for _ in range(2):
        w.check("Model_addOperand", model, ref(operand_type()))
    for i, o in ((4, 5), (5, 4)):
        assert w.add(model, LOGISTIC.code, [i], [o]) == NO_ERROR
    return (model,)


def unordered(w: World) -> tuple[object, ...]:
    """The reader is added before the writer."""
    steps = [(LOGISTIC.code, [i], [o]) for i, o in ((2, 1), (0, 2))]
    model = w.model_of([operand_type()] * 3, *steps)
    w.identify(model, [0], [1])
    return (model,)


def unwritten(w: World) -> tuple[object, ...]:
    model = w.open_model
    w.check("Model_addOperand", model, ref(operand_type()))
    return (model,)


def written_twice(w: World) -> tuple[object, ...]:
    model = w.open_model
    assert w.add(model) == NO_ERROR
    return (model,)


def without_ends(w: World) -> tuple[object, ...]:
    return (w.model(activation=None, identified=False),)


row("Model_finish", "complete", NO_ERROR, W.open_model)
named_earlier = identified(([0], [1]), ([2], [3]))
row("Model_finish", "an input named in an earlier call only", BAD_DATA, named_earlier)
row("Model_finish", "operations in any order", NO_ERROR, unordered)
row("Model_finish", "empty", BAD_DATA, W.empty_model)
row("Model_finish", "no inputs and outputs", BAD_DATA, without_ends)
row("Model_finish", "a cycle", BAD_DATA, cyclic)
row("Model_finish", "an operand never written", BAD_DATA, unwritten)
row("Model_finish", "an operand written twice", BAD_DATA, written_twice)
row("Model_finish", "finished", BAD_STATE, W.finished_model)
row("Model_finish", "invalid", BAD_STATE, W.invalid_model)


def supported(state: str, code: ResultCode, model: Later, handles: Later, n: int) -> None:
    given = model, handles, n
    row("Model_getSupportedOperationsForDevices", state, code, *given, (c.c_bool * 8)())
    row("Compilation_createForDevices", state, code, *given, out())


supported("one device", NO_ERROR, W.finished_model, W.devices(W.device), 1)
supported("no device", BAD_DATA, W.finished_model, W.devices(W.device), 0)
supported("a device twice", BAD_DATA, W.finished_model, W.devices(W.device, W.device), 2)
supported("null among them", UNEXPECTED_NULL, W.finished_model, W.devices(W.device, 0), 2)
supported("no such device", BAD_DATA, W.finished_model, W.devices(12345), 1)
supported("a count nobody has", BAD_DATA, W.finished_model, W.devices(W.device, 1), HUGE)
supported("unfinished", BAD_STATE, W.open_model, W.devices(W.device), 1)


# Compilations

row("Compilation_create", "finished", NO_ERROR, W.finished_model, out())
row("Compilation_create", "unfinished", BAD_STATE, W.open_model, out())
row("Compilation_create", "invalid", BAD_STATE, W.invalid_model, out())


def setting(function: str, code: ResultCode, state: str, *arguments: object) -> None:
    row(function, state, code, W.open_compilation, *arguments)


for preference in PreferenceCode:
    setting("Compilation_setPreference", NO_ERROR, preference.name, preference)
setting("Compilation_setPreference", BAD_DATA, "3", 3)
setting("Compilation_setPreference", BAD_DATA, "-1", -1)
for priority in PriorityCode:
    setting("Compilation_setPriority", NO_ERROR, priority.name, priority)
setting("Compilation_setPriority", BAD_DATA, "0", 0)
setting("Compilation_setPriority", BAD_DATA, "between two", PriorityCode.LOW + 1)
setting("Compilation_setTimeout", NO_ERROR, "a second", 10**9)
setting("Compilation_setTimeout", NO_ERROR, "none", 0)
setting("Compilation_setTimeout", NO_ERROR, "the longest", 2**64 - 1)
setting("Compilation_setCaching", NO_ERROR, "a directory", b"/tmp", TOKEN)
compilation_timeout = partial(row, "Compilation_setTimeout")
compilation_timeout("device left to the runtime", BAD_DATA, W.free_choice_compilation, 10**9)
for name, last in (
    ("setPreference", (0,)),
    ("setPriority", (PriorityCode.MEDIUM,)),
    ("setTimeout", (10**9,)),
    ("setCaching", (b"/tmp", TOKEN)),
    ("finish", ()),
):
    row(f"Compilation_{name}", "finished", BAD_STATE, W.ready_compilation, *last)
compilation_timeout(
    "finished, device left to the runtime", BAD_STATE, W.ready(for_device=False), 10**9
)
row("Compilation_finish", "open", NO_ERROR, W.open_compilation)
row("Compilation_finish", "free choice", NO_ERROR, W.free_choice_compilation)


def vendor(w: World) -> tuple[object, ...]:
    """A model with a vendor's operation finishes, and no device executes it."""
    model = w.model_of([operand_type(10001, (1,))] * 2, (10000, [0], [1]), ends=([0], [1]))
    return (w.compilation(model),)


row("Compilation_finish", "a vendor's operation", BAD_DATA, vendor)

for name in ("AlignmentFor", "PaddingFor"):
    for end, count in (("Input", 2), ("Output", 1)):
        called = f"Compilation_getPreferredMemory{name}{end}"
        row(called, "finished", NO_ERROR, W.ready_compilation, 0, out())
        row(called, "open", BAD_STATE, W.open_compilation, 0, out())
        row(called, "failed", BAD_STATE, W.failed_compilation, 0, out())
        row(called, "index = count", BAD_DATA, W.ready_compilation, count, out())

for called in ("Execution_create", "Burst_create"):
    row(called, "finished", NO_ERROR, W.ready_compilation, out())
    row(called, "open", BAD_STATE, W.open_compilation, out())
    row(called, "failed", BAD_STATE, W.failed_compilation, out())


# Executions: inputs and outputs


def argument(name: str, state: str, code: ResultCode, *, index: int = 0, n: int = 8) -> None:
    for end in ("Input", "Output"):
        row(f"Execution_set{end}", state, code, getattr(W, name), index, None, A, n)
        memory = W.memory(bytes(64)), 0, n
        row(f"Execution_set{end}FromMemory", state, code, getattr(W, name), index, None, *memory)


argument("fresh_execution", "exact length", NO_ERROR)
argument("fresh_execution", "one byte less", BAD_DATA, n=7)
argument("fresh_execution", "one byte more", BAD_DATA, n=9)
argument("fresh_execution", "index -1", BAD_DATA, index=-1)
argument("fresh_execution", "index 999", BAD_DATA, index=999)
argument("set_execution", "set already", BAD_STATE)
argument("running_execution", "running", BAD_STATE)
argument("computed_execution", "computed", BAD_STATE)
argument("reusable_execution", "computed, reusable", BAD_STATE)
argument("failed_execution", "failed", BAD_STATE)


def typed(state: str, code: ResultCode, described: object) -> None:
    for end in ("Input", "Output"):
        row(f"Execution_set{end}", state, code, W.fresh_execution, 0, ref(described), A, 8)


typed("type repeated", NO_ERROR, operand_type())
typed("type of another rank", BAD_DATA, operand_type(dimensions=(1, 2)))
typed("type of other dimensions", BAD_DATA, operand_type(dimensions=(3,)))
typed("type with less known", BAD_DATA, operand_type(dimensions=(0,)))
typed("no such type", BAD_DATA, operand_type(77))

FRESH = W.fresh_execution, 0, None
for end in ("Input", "Output"):
    called = f"Execution_set{end}"
    row(called, "left out", NO_ERROR, *FRESH, None, 0)
    row(called, "null with a length", UNEXPECTED_NULL, *FRESH, None, 8)
    row(called, "length 0", BAD_DATA, *FRESH, A, 0)
    row(f"{called}FromMemory", "past the end", BAD_DATA, *FRESH, W.memory(), 1, 8)
    row(f"{called}FromMemory", "a file as a whole", BAD_DATA, *FRESH, W.memory(), 0, 0)
READ_ONLY = *FRESH, W.read_only_memory, 0, 8
row("Execution_setInputFromMemory", "read only", NO_ERROR, *READ_ONLY)
# ours: Android writes, and the process ends
row("Execution_setOutputFromMemory", "read only", BAD_DATA, *READ_ONLY)


def with_device_memory(offset: int, length: int, same: bool) -> Arguments:
    def arguments(w: World) -> tuple[object, ...]:
        compilation = w.ready()
        memory = w.device_memory(compilation)
        execution = w.execution(compilation if same else w.ready())
        return execution, 0, None, memory, offset, length

    return arguments


ROLE = "Execution_setInputFromMemory"
row(ROLE, "device's memory", NO_ERROR, with_device_memory(0, 0, same=True))
row(ROLE, "device's memory with a length", BAD_DATA, with_device_memory(0, 8, same=True))
row(ROLE, "device's memory with an offset", BAD_DATA, with_device_memory(1, 0, same=True))
row(ROLE, "device's memory of another role", BAD_DATA, with_device_memory(0, 0, same=False))


# Executions: settings

SETTINGS: dict[str, tuple[object, ...]] = {
    "Execution_setLoopTimeout": (10**9,),
    "Execution_setReusable": (True,),
    "Execution_enableInputAndOutputPadding": (True,),
    "Execution_setTimeout": (10**9,),
    "Execution_setMeasureTiming": (True,),
}
STAGES = {
    "fresh_execution": NO_ERROR,
    "running_execution": BAD_STATE,
    "computed_execution": BAD_STATE,
    "reusable_execution": BAD_STATE,
    "failed_execution": BAD_STATE,
}
for called, last in SETTINGS.items():
    for state, code in STAGES.items():
        row(called, state, code, getattr(W, state), *last)
for called in ("Execution_setTimeout", "Execution_setMeasureTiming"):
    row(called, "device left to the runtime", BAD_DATA, W.free_choice_execution, 1)
row("Execution_enableInputAndOutputPadding", "inputs set", BAD_STATE, W.set_execution, True)
row("Execution_setLoopTimeout", "the longest", NO_ERROR, W.fresh_execution, 2**64 - 1)
row("Execution_setTimeout", "the longest", NO_ERROR, W.fresh_execution, 2**64 - 1)


# Executions: computing

COMPUTING = {
    "fresh_execution": BAD_DATA,
    "set_execution": NO_ERROR,
    "running_execution": BAD_STATE,
    "computed_execution": BAD_STATE,
    "reusable_execution": NO_ERROR,
    "failed_execution": BAD_STATE,
}
start_fenced = partial(row, "Execution_startComputeWithDependencies")
for state, code in COMPUTING.items():
    row("Execution_compute", state, code, getattr(W, state))
    row("Execution_startCompute", state, code, getattr(W, state), out())
    start_fenced(state, code, getattr(W, state), None, 0, 0, out())


def burst_of(state: str, same: bool = True) -> Arguments:
    def arguments(w: World) -> tuple[object, ...]:
        compilation = w.ready()
        execution = w.execution(compilation)
        if state != "fresh":
            w.set_all(execution)
        if state == "computed":
            w.check("Execution_compute", execution)
        return execution, w.burst(compilation if same else w.ready())

    return arguments


row("Execution_burstCompute", "set", NO_ERROR, burst_of("set"))
row("Execution_burstCompute", "fresh", BAD_DATA, burst_of("fresh"))
row("Execution_burstCompute", "computed", BAD_STATE, burst_of("computed"))
row("Execution_burstCompute", "another compilation", BAD_DATA, burst_of("set", same=False))

start_fenced("after an event", NO_ERROR, W.set_execution, W.devices(W.event), 1, 10**9, out())
start_fenced("null with a count", UNEXPECTED_NULL, W.set_execution, None, 1, 0, out())
with_null = W.set_execution, W.devices(W.event, 0)
start_fenced("null among them", UNEXPECTED_NULL, *with_null, 2, 0, out())
counted = W.set_execution, W.devices(W.event, 1)
start_fenced("a count nobody has", BAD_DATA, *counted, HUGE, 0, out())
start_fenced("outputs of unknown dimensions", BAD_DATA, W.dynamic_execution, None, 0, 0, out())
free_choice = W.set_all(W.free_choice_execution), None, 0
start_fenced("a duration, device left to the runtime", BAD_DATA, *free_choice, 10**9, out())
row("Execution_startCompute", "unknown output", NO_ERROR, W.dynamic_execution, out())


# Executions: results

for called, space in (("Rank", out()), ("Dimensions", DIMS)):
    function = f"Execution_getOutputOperand{called}"
    for state, code in {
        "fresh_execution": BAD_STATE,
        "set_execution": BAD_STATE,
        "running_execution": BAD_STATE,
        "failed_execution": BAD_STATE,
        "computed_execution": NO_ERROR,
        "reusable_execution": NO_ERROR,
    }.items():
        row(function, state, code, getattr(W, state), 0, space)
    for index in (-1, 1):
        row(function, f"index {index}", BAD_DATA, W.computed_execution, index, space)

get_duration = partial(row, "Execution_getDuration")
for duration in range(4):
    for state, code in {
        "measured_execution": NO_ERROR,
        "computed_execution": BAD_STATE,
        "set_execution": BAD_STATE,
        "running_execution": BAD_STATE,
    }.items():
        get_duration(f"{state}, duration {duration}", code, getattr(W, state), duration, out())
for duration in (-1, 4):
    get_duration(f"duration {duration}", BAD_DATA, W.measured_execution, duration, out())


# Events

row("Event_wait", "succeeding", NO_ERROR, W.event)
row("Event_wait", "failing", OP_FAILED, W.failed_event)
row("Event_createFromSyncFenceFd", "-1", BAD_DATA, -1, out())
row("Event_createFromSyncFenceFd", "a file", BAD_DATA, W.file(b""), out())
row("Event_getSyncFenceFd", "any", BAD_DATA, W.event, out())


# Memory descriptors

row("MemoryDesc_create", "any", NO_ERROR, out())
for end, count in (("Input", 2), ("Output", 1)):
    called = f"MemoryDesc_add{end}Role"
    row(called, "finished", NO_ERROR, W.empty_descriptor, W.ready(), 0, 1.0)
    row(called, "open", BAD_DATA, W.empty_descriptor, W.open_compilation, 0, 1.0)
    row(called, "failed", BAD_DATA, W.empty_descriptor, W.failed_compilation, 0, 1.0)
    row(called, "index = count", BAD_DATA, W.empty_descriptor, W.ready(), count, 1.0)
    for frequency in (0.0, -1.0, 1.5, float("nan")):
        row(called, f"frequency {frequency}", BAD_DATA, W.empty_descriptor, W.ready(), 0, frequency)
    row(called, "descriptor finished", BAD_STATE, W.finished_descriptor, W.ready(), 0, 1)


def same_role(w: World) -> tuple[object, ...]:
    compilation = w.ready()
    return w.descriptor(compilation), compilation, 0, 1.0


def scalar_role(w: World) -> tuple[object, ...]:
    desc = w.empty_descriptor
    w.check("MemoryDesc_setDimensions", desc, 1, u32s([2]))
    return desc, w.ready(model=w.finished(activation=None)), 2, 1.0


def other_dimensions(w: World) -> tuple[object, ...]:
    return w.descriptor(), w.ready(model=w.finished(dims=(3,))), 0, 1.0


row("MemoryDesc_addInputRole", "the role twice", BAD_DATA, same_role)
row("MemoryDesc_addInputRole", "a scalar with dimensions", BAD_DATA, scalar_role)
row("MemoryDesc_addInputRole", "other dimensions", BAD_DATA, other_dimensions)
set_dimensions = partial(row, "MemoryDesc_setDimensions")
for state, code, rank, dims in (
    ("the same", NO_ERROR, 1, [2]),
    ("unknown", NO_ERROR, 0, []),
    ("others", BAD_DATA, 1, [3]),
    ("another rank", BAD_DATA, 2, [2, 1]),
    ("a rank nobody has", BAD_DATA, HUGE, [2]),
):
    set_dimensions(state, code, W.descriptor(), rank, u32s(dims))
set_dimensions("null with a rank", UNEXPECTED_NULL, W.descriptor(), 1, None)
set_dimensions("finished", BAD_STATE, W.finished_descriptor, 1, u32s([2]))
row("MemoryDesc_finish", "a role", NO_ERROR, W.descriptor())
row("MemoryDesc_finish", "no role", BAD_DATA, W.empty_descriptor)
row("MemoryDesc_finish", "finished", BAD_STATE, W.finished_descriptor)
row("Memory_createFromDesc", "finished", NO_ERROR, W.finished_descriptor, out())
row("Memory_createFromDesc", "open", BAD_STATE, W.descriptor(), out())


# Memories


def file_memory(state: str, code: ResultCode, size: int, protect: int, offset: int = 0) -> None:
    row("Memory_createFromFd", state, code, size, protect, W.file(bytes(8)), offset, out())


file_memory("read and write", NO_ERROR, 8, 3)
file_memory("read", NO_ERROR, 8, 1)
file_memory("an offset", NO_ERROR, 5, 3, 3)
file_memory("size 0", BAD_DATA, 0, 3)
file_memory("no access", BAD_DATA, 8, 0)  # ours: Android maps it, and the process ends
file_memory("more than the file has", BAD_DATA, 9, 3)
file_memory("an offset past the end", BAD_DATA, 8, 3, 1)
file_memory("2^64 - 1 bytes", BAD_DATA, 2**64 - 1, 3)
row("Memory_createFromFd", "descriptor -1", BAD_DATA, 8, 3, -1, 0, out())
row("Memory_createFromFd", "closed descriptor", UNMAPPABLE, 8, 3, 987654, 0, out())
row("Memory_createFromAHardwareBuffer", "any", UNMAPPABLE, DATA, out())
row("Memory_copy", "files of one size", NO_ERROR, W.memory(), W.memory())
row("Memory_copy", "onto itself", NO_ERROR, lambda w: (w.memory(),) * 2)
row("Memory_copy", "files of two sizes", BAD_DATA, W.memory(), W.memory(bytes(4)))
row("Memory_copy", "onto a file read only", BAD_DATA, W.memory(), W.read_only_memory)
row("Memory_copy", "file to device", NO_ERROR, W.memory(), W.device_memory())
row("Memory_copy", "wrong size", BAD_DATA, W.memory(bytes(4)), W.device_memory())
row("Memory_copy", "no value", BAD_DATA, W.device_memory(), W.memory())
