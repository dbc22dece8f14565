"""Models from operations to the end."""

import ctypes as c
from collections.abc import Callable

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.spec import ADD, LOGISTIC
from tests.capi.client import operand_type, ref, scalar, u32s
from tests.capi.table.rows import (
    BAD_DATA,
    BAD_STATE,
    HUGE,
    NO_ERROR,
    UNEXPECTED_NULL,
    Arguments,
    Rows,
    out,
)
from tests.capi.world import World

row = Rows()

# Models: operations, inputs and outputs, the end


def operation(state: str, code: ResultCode, op: int, inputs: list[int], outputs: list[int]) -> None:
    def arguments(w: World) -> tuple[object, ...]:
        ends = len(inputs), u32s(inputs), len(outputs), u32s(outputs)
        return w.open_model, op, *ends

    row("Model_addOperation", state, code, arguments)


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
row(
    "Model_addOperation",
    "a count nobody has",
    BAD_DATA,
    lambda w: (w.open_model, ADD.code, HUGE, u32s([0, 1, 2]), 1, u32s([3])),
)
row(
    "Model_addOperation",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, ADD.code, 3, u32s([0, 1, 2]), 1, u32s([3])),
)


def identify(state: str, code: ResultCode, inputs: list[int], outputs: list[int]) -> None:
    def arguments(w: World) -> tuple[object, ...]:
        return w.anonymous_model, len(inputs), u32s(inputs), len(outputs), u32s(outputs)

    row("Model_identifyInputsAndOutputs", state, code, arguments)


def identified(*calls: tuple[list[int], list[int]]) -> Callable[[World], int]:
    """A model whose inputs and outputs have been named before, successfully or not."""

    def model(w: World) -> int:
        made = w.anonymous_model
        for inputs, outputs in calls:
            ends = len(inputs), u32s(inputs), len(outputs), u32s(outputs)
            w.nn.Model_identifyInputsAndOutputs(made, *ends)
        return made

    return model


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
    row(
        "Model_identifyInputsAndOutputs",
        state,
        BAD_DATA,
        lambda w, before=before: (identified(before)(w), 2, u32s([0, 1]), 1, u32s([3])),
    )
row(
    "Model_identifyInputsAndOutputs",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, 2, u32s([0, 1]), 1, u32s([3])),
)
row("Model_relaxComputationFloat32toFloat16", "open", NO_ERROR, lambda w: (w.open_model, True))
row(
    "Model_relaxComputationFloat32toFloat16",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, False),
)


def cyclic(w: World) -> tuple[object, ...]:
    """4 = LOGISTIC(5), 5 = LOGISTIC(4)."""
    model = w.open_model
    for _ in range(2):
        w.check("Model_addOperand", model, ref(operand_type()))
    for i, o in ((4, 5), (5, 4)):
        w.check("Model_addOperation", model, LOGISTIC.code, 1, u32s([i]), 1, u32s([o]))
    return (model,)


def unordered(w: World) -> tuple[object, ...]:
    """The reader is added before the writer."""
    model = w.empty_model
    for _ in range(3):
        w.check("Model_addOperand", model, ref(operand_type()))
    for i, o in ((2, 1), (0, 2)):
        w.check("Model_addOperation", model, LOGISTIC.code, 1, u32s([i]), 1, u32s([o]))
    w.identify(model, [0], [1])
    return (model,)


def unwritten(w: World) -> tuple[object, ...]:
    model = w.open_model
    w.check("Model_addOperand", model, ref(operand_type()))
    return (model,)


def written_twice(w: World) -> tuple[object, ...]:
    model = w.open_model
    w.add(model)
    return (model,)


def without_ends(w: World) -> tuple[object, ...]:
    model = w.empty_model
    for described in (operand_type(), operand_type(), scalar(), operand_type()):
        w.check("Model_addOperand", model, ref(described))
    w.add(model)
    return (model,)


row("Model_finish", "complete", NO_ERROR, lambda w: (w.open_model,))
row(
    "Model_finish",
    "an input named in an earlier call only",
    BAD_DATA,
    lambda w: (identified(([0], [1]), ([2], [3]))(w),),
)
row("Model_finish", "operations in any order", NO_ERROR, unordered)
row("Model_finish", "empty", BAD_DATA, lambda w: (w.empty_model,))
row("Model_finish", "no inputs and outputs", BAD_DATA, without_ends)
row("Model_finish", "a cycle", BAD_DATA, cyclic)
row("Model_finish", "an operand never written", BAD_DATA, unwritten)
row("Model_finish", "an operand written twice", BAD_DATA, written_twice)
row("Model_finish", "finished", BAD_STATE, lambda w: (w.finished_model,))
row("Model_finish", "invalid", BAD_STATE, lambda w: (w.invalid_model,))


def supported(state: str, code: ResultCode, model: str, handles: Arguments, n: int) -> None:
    def arguments(w: World) -> tuple[object, ...]:
        return getattr(w, model), w.devices(*handles(w)), n

    row(
        "Model_getSupportedOperationsForDevices",
        state,
        code,
        lambda w: (*arguments(w), (c.c_bool * 8)()),
    )
    if model != "open_model":
        row("Compilation_createForDevices", state, code, lambda w: (*arguments(w), out()))


supported("one device", NO_ERROR, "finished_model", lambda w: (w.device,), 1)
supported("no device", BAD_DATA, "finished_model", lambda w: (w.device,), 0)
supported("a device twice", BAD_DATA, "finished_model", lambda w: (w.device, w.device), 2)
supported("null among them", UNEXPECTED_NULL, "finished_model", lambda w: (w.device, 0), 2)
supported("no such device", BAD_DATA, "finished_model", lambda w: (12345,), 1)
supported("a count nobody has", BAD_DATA, "finished_model", lambda w: (w.device, 1), HUGE)
supported("unfinished", BAD_STATE, "open_model", lambda w: (w.device,), 1)
row(
    "Compilation_createForDevices",
    "unfinished",
    BAD_STATE,
    lambda w: (w.open_model, w.devices(w.device), 1, out()),
)
