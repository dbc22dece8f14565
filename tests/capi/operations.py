"""Lists of operands as a client adds them to a model, and lists changed in one place."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.spec import BY_NAME
from tests.capi.client import channel_params, operand_type, ref
from tests.capi.world import World
from tests.nnapi.typed import PER_CHANNEL, samples, typed
from tests.nnapi.typed import operand as unknown

OEM_TENSOR = 10001
CODES = (*OperandCode, OEM_TENSOR)
SCALE = 1 / 256
Dims = tuple[int, ...]


class Described(NamedTuple):
    """One operand: its code, its dimensions, what it is quantized by."""

    code: int
    dims: Dims = ()
    scale: float = 0.0
    zero_point: int = 0


class Listed(NamedTuple):
    """One operation on operands of its own."""

    name: str
    level: int
    inputs: tuple[Described, ...]
    outputs: tuple[Described, ...]

    @property
    def operands(self) -> tuple[Described, ...]:
        return self.inputs + self.outputs

    def changed(self, place: int, operand: Described) -> "Listed":
        """The same with another operand at a place, counted from the first input to the last
        output."""
        made = (*self.operands[:place], operand, *self.operands[place + 1 :])
        split = len(self.inputs)
        return self._replace(inputs=made[:split], outputs=made[split:])


DIMS: dict[tuple[str, str], Dims] = {
    ("FULLY_CONNECTED", "bias"): (2,),
    ("MIRROR_PAD", "input"): (2, 2),
    ("MIRROR_PAD", "output"): (2, 2),
    ("PACK", "output"): (2, 2, 2),
    ("REVERSE", "axis"): (1,),
    ("REVERSE", "output"): (2, 2, 2, 2),
}
"""Where operands must fit each other; others have 2 in each of their highest rank, or of two."""

CHANNEL_DIM = {"DEPTHWISE_CONV_2D": 3}


def described(code: int, dims: Dims) -> Described:
    """An operand that is legal on its own; a scalar has no dimensions."""
    if code == OEM_TENSOR:
        return Described(code, dims or (2,))
    known = OperandCode(code)
    if not known.tensor:
        return Described(code)
    scaled = known.quantized and known is not PER_CHANNEL
    return Described(code, dims or (2,), SCALE if scaled else 0.0)


def _dims(name: str, param: str) -> Dims:
    limits = BY_NAME[name].ranks.get(param, (2, 2))
    return DIMS.get((name, param), (2,) * min(4, limits[1]))


@cache
def lists(name: str) -> list[Listed]:
    """The lists of an operation that NNAPI accepts, of each data type and level."""
    found = []
    for called, level, ins, outs in samples():
        if called == name:
            seen = typed(
                [unknown(code, channel=CHANNEL_DIM.get(name, 0)) for code in (*ins, *outs)]
            )
            match = BY_NAME[name].match(seen[: len(ins)], seen[len(ins) :], 8)
            params = match.inputs + match.outputs
            made = [
                described(code, _dims(name, param.name))
                for code, param in zip((*ins, *outs), params, strict=True)
            ]
            found.append(Listed(name, level, tuple(made[: len(ins)]), tuple(made[len(ins) :])))
    return found


class Bench:
    """A model that operations are added to, each on operands that are added when first used."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.model = world.make("Model_create")
        self._known: dict[tuple[Described, int], int] = {}

    def add(self, listed: Listed) -> int:
        """The result code of addOperation."""
        inputs = self._indexes(listed.inputs, listed)
        outputs = self._indexes(listed.outputs, listed)
        return self.world.add(self.model, BY_NAME[listed.name].code, inputs, outputs)

    def _indexes(self, operands: Sequence[Described], listed: Listed) -> list[int]:
        dim = CHANNEL_DIM.get(listed.name, 0)
        return [self._index(operand, dim) for operand in operands]

    def _index(self, operand: Described, dim: int) -> int:
        key = operand, dim if operand.code == PER_CHANNEL else 0
        if key not in self._known:
            self._known[key] = len(self._known)
            self.world.check("Model_addOperand", self.model, ref(operand_type(*operand)))
            if operand.code == PER_CHANNEL:
                self._scale(self._known[key], operand, min(dim, len(operand.dims) - 1))
        return self._known[key]

    def _scale(self, index: int, operand: Described, dim: int) -> None:
        params = ref(channel_params(dim, [SCALE] * operand.dims[dim]))
        self.world.check("Model_setOperandSymmPerChannelQuantParams", self.model, index, params)
