"""Operands by short type names, for tests of signatures."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import ChannelQuantization, Omitted, Operand, TypedOperand

CODES = {
    "i": OperandCode.INT32,
    "f": OperandCode.FLOAT32,
    "h": OperandCode.FLOAT16,
    "b": OperandCode.BOOL,
    "u": OperandCode.UINT32,
    "m": OperandCode.MODEL,
    "F32": OperandCode.TENSOR_FLOAT32,
    "F16": OperandCode.TENSOR_FLOAT16,
    "I32": OperandCode.TENSOR_INT32,
    "B8": OperandCode.TENSOR_BOOL8,
    "Q8": OperandCode.TENSOR_QUANT8_ASYMM,
    "Q8S": OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
    "Q8Y": OperandCode.TENSOR_QUANT8_SYMM,
    "Q8C": OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
    "Q16": OperandCode.TENSOR_QUANT16_ASYMM,
    "Q16Y": OperandCode.TENSOR_QUANT16_SYMM,
}
PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
SAMPLES = Path(__file__).with_name("signatures.txt")


@cache
def operand(
    code: OperandCode, *dims: int, scale: float = 0.1, zero_point: int = 0, channel: int = 0
) -> Operand:
    """An operand of unknown rank unless dimensions are given."""
    scaled = code.quantized and code is not PER_CHANNEL
    channels = ChannelQuantization(channel, (0.1,)) if code is PER_CHANNEL else None
    return Operand(code, dims, scale if scaled else 0.0, zero_point, channels)


def typed(operands: Sequence[Operand]) -> list[TypedOperand]:
    """Operands as signatures see them."""
    return [TypedOperand(o, i) for i, o in enumerate(operands)]


def codes(text: str) -> list[OperandCode]:
    """ "2*F32 i": TENSOR_FLOAT32 twice and INT32."""
    found = []
    for word in text.split():
        count, _, name = word.rpartition("*")
        found += [CODES[name]] * int(count or 1)
    return found


def operands(text: str) -> list[TypedOperand]:
    """Operands of those types and of unknown rank; those of "2*?F32" are left out."""
    made = []
    for word in text.split():
        value = Omitted.NO_VALUE if "?" in word else None
        made += [replace(operand(code), value=value) for code in codes(word.replace("?", ""))]
    return typed(made)


@cache
def samples() -> list[tuple[str, int, list[OperandCode], list[OperandCode]]]:
    """Lists that NNAPI accepts: operation, lowest level, codes of inputs and of outputs."""
    name, found = "", []
    for line in SAMPLES.read_text().splitlines():
        if line.startswith(" "):
            level, _, signature = line.strip().partition(" ")
            ins, outs = signature.split(" > ")
            found.append((name, int(level), codes(ins), codes(outs)))
        elif not line.startswith("#"):
            name = line
    return found
