"""Models while operands get types and values."""

from collections.abc import Callable

from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from tests.capi.client import channel_params, operand_type, ref, scalar
from tests.capi.table.rows import (
    BAD_DATA,
    BAD_STATE,
    DATA,
    HUGE,
    NO_ERROR,
    UNEXPECTED_NULL,
    Rows,
    out,
)
from tests.capi.world import World

F32 = OperandCode.TENSOR_FLOAT32
Q8 = OperandCode.TENSOR_QUANT8_ASYMM
PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL

row = Rows()

# Models: adding operands


def add_operand(state: str, code: ResultCode, described: object) -> None:
    row("Model_addOperand", state, code, lambda w: (w.empty_model, ref(described)))


row("Model_create", "any", NO_ERROR, lambda w: (out(),))
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
row("Model_addOperand", "finished", BAD_STATE, lambda w: (w.finished_model, ref(operand_type())))
row("Model_addOperand", "invalid", BAD_STATE, lambda w: (w.invalid_model, ref(operand_type())))


def dimensions_null(w: World) -> tuple[object, ...]:
    described = operand_type()
    described.dimensions = None
    return w.empty_model, ref(described)


def dimensions_uncounted(w: World) -> tuple[object, ...]:
    described = operand_type()
    described.dimensionCount = 0
    return w.empty_model, ref(described)


def dimensions_too_many(w: World) -> tuple[object, ...]:
    described = operand_type()
    described.dimensionCount = HUGE
    return w.empty_model, ref(described)


row("Model_addOperand", "rank 1, dimensions null", BAD_DATA, dimensions_null)
row("Model_addOperand", "rank 0, dimensions given", BAD_DATA, dimensions_uncounted)
row("Model_addOperand", "a rank nobody has", BAD_DATA, dimensions_too_many)

# Models: constants


def value(state: str, code: ResultCode, model: Callable[[World], int], index: int, n: int) -> None:
    row("Model_setOperandValue", state, code, lambda w: (model(w), index, DATA, n))


def tensor_model(*dims: int) -> Callable[[World], int]:
    return lambda w: w.typed_model(F32, dims)


value("exact length", NO_ERROR, tensor_model(2), 0, 8)
value("128 bytes", NO_ERROR, tensor_model(32), 0, 128)
value("132 bytes", NO_ERROR, tensor_model(33), 0, 132)
value("one byte less", BAD_DATA, tensor_model(2), 0, 7)
value("one byte more", BAD_DATA, tensor_model(2), 0, 9)
value("length 0", BAD_DATA, tensor_model(2), 0, 0)
value("an unknown dimension", BAD_DATA, tensor_model(0, 2), 0, 8)
value("unknown rank", BAD_DATA, tensor_model(), 0, 8)
value("a MODEL operand", BAD_DATA, lambda w: w.typed_model(), 0, 8)
value("an OEM scalar of any length", NO_ERROR, lambda w: w.typed_model(10000), 0, 20)
value("an OEM scalar of length 0", BAD_DATA, lambda w: w.typed_model(10000), 0, 0)
value("an OEM scalar of more than an operand", BAD_DATA, lambda w: w.typed_model(10000), 0, 2**32)
value("an OEM scalar of more than a buffer has", BAD_DATA, lambda w: w.typed_model(10000), 0, 2**63)
value("an OEM tensor", NO_ERROR, lambda w: w.typed_model(10001, (4,)), 0, 4)
value("index = count", BAD_DATA, tensor_model(2), 1, 8)
value("index -1", BAD_DATA, tensor_model(2), -1, 8)
value("finished", BAD_STATE, lambda w: w.finished_model, 2, 4)
row(
    "Model_setOperandValue",
    "left out",
    NO_ERROR,
    lambda w: (w.typed_model(F32, (2,)), 0, None, 0),
)
row(
    "Model_setOperandValue",
    "null with a length",
    UNEXPECTED_NULL,
    lambda w: (w.typed_model(F32, (2,)), 0, None, 8),
)


def from_memory(state: str, code: ResultCode, index: int, offset: int, length: int) -> None:
    def arguments(w: World) -> tuple[object, ...]:
        return w.typed_model(F32, (1,)), index, w.memory(bytes(20)), offset, length

    row("Model_setOperandValueFromMemory", state, code, arguments)


from_memory("inside", NO_ERROR, 0, 16, 4)
from_memory("past the end", BAD_DATA, 0, 17, 4)
from_memory("offset past the end", BAD_DATA, 0, 21, 4)
from_memory("an offset that wraps around", BAD_DATA, 0, 2**64 - 1, 4)
from_memory("wrong length", BAD_DATA, 0, 0, 20)
from_memory("index out of range", BAD_DATA, 1, 0, 4)
row(
    "Model_setOperandValueFromMemory",
    "an OEM scalar, whose length nobody knows",
    BAD_DATA,
    lambda w: (w.typed_model(10000), 0, w.memory(bytes(20)), 0, 20),
)
row(
    "Model_setOperandValueFromMemory",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, 2, w.memory(), 0, 4),
)
row(
    "Model_setOperandValueFromMemory",
    "a device's memory",
    BAD_DATA,
    lambda w: (w.typed_model(F32, (2,)), 0, w.device_memory(), 0, 8),
)

row(
    "Model_setOperandValueFromModel",
    "finished value",
    NO_ERROR,
    lambda w: (w.typed_model(), 0, w.finished_model),
)
row(
    "Model_setOperandValueFromModel",
    "unfinished value",
    BAD_STATE,
    lambda w: (w.typed_model(), 0, w.open_model),
)
row(
    "Model_setOperandValueFromModel",
    "invalid value",
    BAD_STATE,
    lambda w: (w.typed_model(), 0, w.invalid_model),
)
row(
    "Model_setOperandValueFromModel",
    "no MODEL operand",
    BAD_DATA,
    lambda w: (w.typed_model(F32, (2,)), 0, w.finished_model),
)
row(
    "Model_setOperandValueFromModel",
    "index out of range",
    BAD_DATA,
    lambda w: (w.typed_model(), 1, w.finished_model),
)
row(
    "Model_setOperandValueFromModel",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, 0, w.finished_model),
)


def channels(state: str, code: ResultCode, dim: int, scales: list[float]) -> None:
    def arguments(w: World) -> tuple[object, ...]:
        return w.typed_model(PER_CHANNEL, (2, 3)), 0, ref(channel_params(dim, scales))

    row("Model_setOperandSymmPerChannelQuantParams", state, code, arguments)


channels("a scale each", NO_ERROR, 1, [0.5, 0.25, 1.0])
channels("too few", BAD_DATA, 1, [0.5, 0.25])
channels("too many", BAD_DATA, 0, [0.5, 0.25, 1.0])
channels("no such dimension", BAD_DATA, 2, [0.5, 0.25, 1.0])
channels("a scale of 0", BAD_DATA, 0, [0.5, 0.0])
channels("a negative scale", BAD_DATA, 0, [0.5, -1.0])
row(
    "Model_setOperandSymmPerChannelQuantParams",
    "another type",
    BAD_DATA,
    lambda w: (w.typed_model(F32, (2,)), 0, ref(channel_params(0, [1.0, 1.0]))),
)
row(
    "Model_setOperandSymmPerChannelQuantParams",
    "index out of range",
    BAD_DATA,
    lambda w: (w.typed_model(PER_CHANNEL, (2,)), 1, ref(channel_params(0, [1.0, 1.0]))),
)
row(
    "Model_setOperandSymmPerChannelQuantParams",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_model, 0, ref(channel_params(0, [1.0, 1.0]))),
)
