"""addOperation with lists of operands: NNAPI's own, and those changed in one place.

The changes, and what Android answers, are those of its TestValidateOperations; an operand changed
here is legal on its own, so that it is the operation that is refused.
"""

import pytest

from ep_nnapi.nnapi.capi.model import MODELS
from ep_nnapi.nnapi.codes import OperandCode, ResultCode
from ep_nnapi.nnapi.spec import OPERATIONS
from tests.capi.client import BAD_DATA, NO_ERROR
from tests.capi.operations import CODES, OEM_TENSOR, Bench, Described, Listed, described, lists
from tests.capi.world import World
from tests.cases import each
from tests.nnapi.typed import codes

NAMES = [op.name for op in OPERATIONS if op.name not in ("IF", "WHILE")]
SHORT = 24
"""Operands; in longer lists a change takes one code of each kind, for the sake of time."""
FEW = (OperandCode.INT32, OperandCode.TENSOR_INT32, OperandCode.TENSOR_QUANT8_ASYMM, OEM_TENSOR)

NUMBERS = "F32 F16 I32 Q8 Q8S"
FREE: dict[tuple[str, int], str] = {
    ("ARGMAX", 0): NUMBERS,
    ("ARGMIN", 0): NUMBERS,
    ("AXIS_ALIGNED_BBOX_TRANSFORM", 1): "Q8 Q8S",
    ("CAST", 0): "F32 F16 I32 Q8",
    ("CAST", 1): "F32 F16 I32 Q8",
    ("DEQUANTIZE", 0): "Q8 Q8S Q8Y Q8C",
    ("DEQUANTIZE", 1): "F32 F16",
    ("LSH_PROJECTION", 1): "F32 F16 I32 Q8",
    ("QUANTIZE", 0): "F32 F16",
    ("QUANTIZE", 1): "Q8 Q8S",
    ("RANDOM_MULTINOMIAL", 0): "F32 F16",
    ("RANK", 0): "F32 F16 I32 B8 Q8 Q8S Q8Y Q8C Q16 Q16Y",
    **{(f"{conv}_2D", 1): "Q8 Q8S Q8C" for conv in ("CONV", "DEPTHWISE_CONV", "GROUPED_CONV")},
    ("TRANSPOSE_CONV_2D", 1): "Q8 Q8S Q8C",
}
"""Places that may be of any of several types whatever the others are of; Android does not ask for
more than that another list is legal then."""
LAYOUT_OR_STRIDE = {("CONV_2D", 7), ("DEPTHWISE_CONV_2D", 8)}
"""Where BOOL and INT32 tell implicit from explicit padding, with as many operands."""


def may_be(listed: Listed, place: int, code: int) -> bool:
    """True if a list with that code at that position may be legal as well."""
    at = listed.name, place
    free = codes(FREE.get(at, ""))
    both = {OperandCode.BOOL, OperandCode.INT32}
    either = at in LAYOUT_OR_STRIDE and {listed.operands[place].code, code} == both
    return either or (code in free and listed.operands[place].code in free)


def test_every_list_from_its_level_on(world: World) -> None:
    """From the highest down, so that the operands are there for all."""
    bench = Bench(world)
    for level in range(8, 0, -1):
        MODELS[bench.model].level = level
        for listed in (one for name in NAMES for one in lists(name)):
            assert bench.add(listed) == (NO_ERROR if listed.level <= level else BAD_DATA), listed


@each("name", NAMES)
def test_one_operand_of_another_type(world: World, name: str) -> None:
    bench = Bench(world)
    for listed in lists(name):
        assert bench.add(listed) == NO_ERROR, listed
        chosen = CODES if len(listed.operands) <= SHORT else FEW
        for place, operand in enumerate(listed.operands):
            for code in chosen:
                if code == operand.code or may_be(listed, place, code):
                    continue
                changed = listed.changed(place, described(code, operand.dims))
                assert bench.add(changed) == BAD_DATA, (place, changed)


MORE_OUTPUTS = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": 5,
    "BIDIRECTIONAL_SEQUENCE_RNN": 3,
    "SPLIT": 6,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 3,
    "UNIDIRECTIONAL_SEQUENCE_RNN": 1,
}
"""Up to how many outputs more may make another legal list."""


@each("name", NAMES)
def test_operands_too_many(world: World, name: str) -> None:
    """Copies of the first; four more tensors make LSTM's longer list."""
    bench = Bench(world)
    for listed in lists(name):
        for more in range(1, 4 if name == "LSTM" else 6):
            inputs = listed.inputs + listed.inputs[:1] * more
            assert bench.add(listed._replace(inputs=inputs)) == BAD_DATA, (more, listed)
        for more in range(1, 7):
            outputs = listed.outputs + listed.outputs[:1] * more
            code = bench.add(listed._replace(outputs=outputs))
            assert code == BAD_DATA or more <= MORE_OUTPUTS.get(name, 0), (more, listed)


@each("name", NAMES)
def test_operands_too_few(world: World, name: str) -> None:
    """No input, no output, and nothing but the first input where there are more."""
    bench = Bench(world)
    for listed in lists(name):
        assert bench.add(listed._replace(inputs=())) == BAD_DATA
        assert bench.add(listed._replace(outputs=())) == BAD_DATA
        if len(listed.inputs) > 1 and name != "L2_NORMALIZATION":
            assert bench.add(listed._replace(inputs=listed.inputs[:1])) == BAD_DATA


UP_TO_4 = (1, 4)
RANKS: dict[str, dict[tuple[int, ...], tuple[int, int]]] = {
    **{name: {(0,): UP_TO_4, (1,): UP_TO_4} for name in ("ADD", "SUB", "MUL", "DIV")},
    **{name: {(0,): UP_TO_4} for name in ("FLOOR", "LOGISTIC", "RELU", "RELU1", "RELU6", "TANH")},
    **{name: {(0,): UP_TO_4} for name in ("DEQUANTIZE", "RESHAPE", "MEAN", "PAD", "PAD_V2")},
    **{name: {(0,): UP_TO_4} for name in ("SOFTMAX", "TRANSPOSE", "SQUEEZE", "STRIDED_SLICE")},
    **{name: {(0,): UP_TO_4} for name in ("CHANNEL_SHUFFLE", "L2_NORMALIZATION")},
    **{f"REDUCE_{name}": {(0,): UP_TO_4} for name in ("PROD", "SUM", "MAX", "MIN", "ANY", "ALL")},
    "LOCAL_RESPONSE_NORMALIZATION": {(0,): UP_TO_4},
    "CONV_2D": {(0, 1): (4, 4)},
    "FULLY_CONNECTED": {(0,): (2, 4), (1,): (2, 2), (2,): (1, 1)},
}
"""Ranks that Android limits, of the operands at those places together."""


def of_rank(operand: Described, rank: int) -> Described:
    """The same with dimensions of 1 behind, or the last ones left out."""
    return operand._replace(dims=(operand.dims + (1,) * rank)[:rank])


def with_rank(listed: Listed, places: tuple[int, ...], rank: int) -> Listed:
    for place in places:
        listed = listed.changed(place, of_rank(listed.operands[place], rank))
    return listed


@each("name", RANKS)
def test_ranks_at_the_limits_and_past_them(world: World, name: str) -> None:
    bench = Bench(world)
    for listed in lists(name):
        if OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL in [o.code for o in listed.operands]:
            continue  # its scales would have to change as well
        for places, (low, high) in RANKS[name].items():
            for rank in {low, high}:
                assert bench.add(with_rank(listed, places, rank)) == NO_ERROR, (rank, listed)
            for rank in {low - 1, high + 1} - {0}:
                assert bench.add(with_rank(listed, places, rank)) == BAD_DATA, (rank, listed)


@pytest.mark.parametrize("name", ["ABS", "MAXIMUM", "MINIMUM", "EXP", "LESS", "POW", "SELECT"])
def test_ranks_that_android_does_not_limit(world: World, name: str) -> None:
    bench = Bench(world)
    for listed in lists(name):
        places = tuple(range(len(listed.operands)))
        assert bench.add(with_rank(listed, places, 5)) == NO_ERROR


def quantized(name: str) -> list[Listed]:
    eight = (OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)
    return [listed for listed in lists(name) if listed.outputs[0].code in eight]


@pytest.mark.parametrize("name", ["PACK", "REVERSE", "MIRROR_PAD"])
def test_one_scale_or_zero_point_for_all(world: World, name: str) -> None:
    bench = Bench(world)
    assert quantized(name)
    for listed in quantized(name):
        for place, operand in enumerate(listed.operands):
            if operand.scale:
                for other in (operand._replace(scale=1 / 128), operand._replace(zero_point=1)):
                    assert bench.add(listed.changed(place, other)) == BAD_DATA, (place, other)


@pytest.mark.parametrize(("scale", "code"), [(0.5, BAD_DATA), (1.0, BAD_DATA), (1.5, NO_ERROR)])
def test_a_product_has_a_coarser_scale(world: World, scale: float, code: ResultCode) -> None:
    """Both inputs' scale is 1."""
    bench = Bench(world)
    for listed in quantized("MUL"):
        ones = tuple(o._replace(scale=1.0) if o.scale else o for o in listed.inputs)
        product = listed.outputs[0]._replace(scale=scale)
        assert bench.add(listed._replace(inputs=ones, outputs=(product,))) == code


@pytest.mark.parametrize("name", ["PACK", "REVERSE"])
def test_ranks_that_depend_on_each_other(world: World, name: str) -> None:
    """A rank less or more in one operand; of REVERSE's axis, which has one dimension, only more."""
    bench = Bench(world)
    for listed in lists(name):
        for place, operand in enumerate(listed.operands):
            rank = len(operand.dims)
            for other in {rank - 1, rank + 1} - {0} if rank else ():
                assert bench.add(with_rank(listed, (place,), other)) == BAD_DATA, (place, other)
