"""NNAPI models as flatbuffers: what they compute, and what is declined.

nnapi-reference, whose kernels are this package's own, says what is right.
"""

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.litert.library import load
from ep_nnapi.litert.to_tflite import FlatPort, convert, convert_split, obstacles
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode, OperandCode, PaddingCode
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, INT32, Q8, Q8S
from tests.litert.needs import LITERT
from tests.nnapi import conformance
from tests.nnapi.build import constant, one
from tests.ort_devices.networks import Network, chain, computed, feed, quantization

ONE_QUANTUM = 1
SHARE = 0.844  # of the conformance cases that expect success
SUMS = 1e-5  # of some dozens of products, in another order


def reference(model: Model, feeds: list[np.ndarray]) -> list[np.ndarray]:
    return computed(model, ReferenceDevice(), feeds)


def matches(model: Model, atol: float = SUMS) -> None:
    assert not any(obstacles(model))
    feeds = feed(model)
    got = load(convert(model)).run({f"i{n}": a for n, a in enumerate(feeds)})
    for n, wanted in enumerate(reference(model, feeds)):
        assert got[f"o{n}"].dtype == wanted.dtype
        assert got[f"o{n}"].shape == wanted.shape
        kind = np.int64 if wanted.dtype.kind in "iu" else np.float64
        np.testing.assert_allclose(got[f"o{n}"].astype(kind), wanted.astype(kind), 0, atol)


def unary(
    row: spec.OperationSpec, *scalars: float, code: OperandCode = F32, **output: object
) -> Model:
    x = Operand(code, (1, 4, 6, 2), *quantization(code))
    return one(row, [x, *scalars], [Operand(code, (1, 4, 6, 2), **output)])


@LITERT
@pytest.mark.parametrize("nchw", [False, True])
def test_convolutions_match(nchw: bool) -> None:
    matches(chain(nchw=nchw))


@LITERT
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("code", [Q8, Q8S])
def test_quantized_convolutions_match(code: OperandCode, per_channel: bool) -> None:
    matches(chain(code, per_channel=per_channel), ONE_QUANTUM)


@LITERT
@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 1, 0, 1), (0, 0, 0, 0), (2, 0, 1, 2)])
@pytest.mark.parametrize("pool", [spec.MAX_POOL_2D, None])
def test_explicit_padding_matches(padding: tuple[int, ...], pool: spec.OperationSpec | None):
    """That of SAME, of VALID and neither; left, right, top, bottom."""
    left, right, top, bottom = padding
    shape = (1, (8 + top + bottom - 3) // 2 + 1, (6 + left + right - 3) // 2 + 1, 2)
    draw = np.random.default_rng(1).uniform
    given = [*padding, 2, 2, 3, 3, 0]
    if pool is None:
        given = [draw(-1, 1, (2, 3, 3, 2)), draw(-1, 1, 2), *padding, 2, 2, int(FuseCode.RELU6)]
    matches(one(pool or spec.CONV_2D, [Operand(F32, (1, 8, 6, 2)), *given], [Operand(F32, shape)]))


@LITERT
@pytest.mark.parametrize(
    ("row", "scalars"),
    [
        (spec.LOGISTIC, ()),
        (spec.TANH, ()),
        (spec.RELU6, ()),
        (spec.ELU, (1.0,)),
        (spec.ELU, (0.5,)),
        (spec.ELU, (-2.0,)),
        (spec.SOFTMAX, (0.5, 1)),
        (spec.L2_NORMALIZATION, (2,)),
        (spec.INSTANCE_NORMALIZATION, (2.0, 0.5, 1e-3, False)),
        (spec.CHANNEL_SHUFFLE, (3, 2)),
        (spec.LOCAL_RESPONSE_NORMALIZATION, (1, 1.0, 0.5, 0.5)),
    ],
)
def test_operations_of_one_tensor_match(row: spec.OperationSpec, scalars: tuple[float, ...]):
    matches(unary(row, *scalars))


@LITERT
@pytest.mark.parametrize("code", [Q8, Q8S])
def test_quantized_outputs_of_fixed_scales_match(code: OperandCode) -> None:
    zero = 0 if code is Q8 else -128
    matches(unary(spec.LOGISTIC, code=code, scale=1 / 256, zero_point=zero), ONE_QUANTUM)


def single(row: spec.OperationSpec, *given: Operand | np.ndarray | float, out: object) -> Model:
    """A model of one operation: operands are its inputs, arrays and numbers constants."""
    return one(row, given, [out] if isinstance(out, Operand) else [*out])


def coded(*shape: int, scale: float = 0.05, zero_point: int = 128, code: OperandCode = Q8):
    return Operand(code, shape, scale, zero_point)


BITS, FINE = Operand(BOOL8, (2, 3)), {"scale": 0.03, "zero_point": 100}
REAL, INTEGERS = Operand(F32, (2, 3)), Operand(I32, (2, 3))
SIX = Operand(I32, (6,))
IMAGE = 1, 8, 6, 2


@LITERT
@pytest.mark.parametrize(
    "model",
    [
        single(spec.EQUAL, coded(2, 3), coded(2, 3, **FINE), out=BITS),
        single(spec.LESS, BITS, BITS, out=BITS),
        single(spec.LESS, tiny := coded(2, 60, scale=1e-3), tiny, out=Operand(BOOL8, (2, 60))),
        single(spec.MAXIMUM, coded(2, 3), coded(2, 3, **FINE), out=coded(2, 3)),
        single(spec.SELECT, BITS, coded(2, 3, **FINE), coded(2, 3), out=coded(2, 3)),
        single(spec.RSQRT, coded(6, zero_point=0), out=coded(6, scale=0.1, zero_point=0)),
        single(spec.ADD, coded(2, 3), huge := coded(2, 3, scale=1e36), 0, out=huge),
        single(spec.CAST, REAL, out=coded(2, 3)),
        single(spec.CAST, INTEGERS, out=coded(2, 3)),
        single(spec.CAST, REAL, out=Operand(F16, (2, 3))),
        single(spec.RANK, Operand(F32, (2, 3)), out=Operand(INT32)),
        single(spec.LOG_SOFTMAX, REAL, 2.0, 0, out=REAL),
        single(spec.DIV, SIX, np.array([1, -2, 3, -4, 5, 7], np.int32), 0, out=SIX),
    ],
    ids=lambda model: f"{model.operations[0].spec} of {model.operands[0].type.name}",
)
def test_combinations_of_operators_match(model: Model) -> None:
    """Operations that LiteRT has no single operator for, with these types or parameters."""
    matches(model, ONE_QUANTUM if model.operands[model.outputs[0]].scale else SUMS)


@LITERT
def test_sizes_that_an_input_says_are_known() -> None:
    """LiteRT's compiled models would not store such an output."""
    x, y = Operand(F32, (2, 3)), Operand(F32, (4, 3))
    model = single(spec.TILE, x, Operand(I32, (2,)), out=y)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = load(convert(model)).run({"i0": array, "i1": np.array([2, 1], np.int32)})
    np.testing.assert_array_equal(found["o0"], np.tile(array, (2, 1)))


@pytest.mark.parametrize(("rank", "reason"), [(8, ""), (9, "LiteRT has no tensors of rank 9")])
def test_ranks_have_a_limit(rank: int, reason: str) -> None:
    x = Operand(F32, (1,) * rank)
    assert obstacles(single(spec.TILE, x, np.ones(rank, np.int32), out=x)) == (reason,)


@LITERT
@pytest.mark.parametrize("code", [F32, I32, Q8, Q8S])
def test_of_equal_elements_the_last_one_is_first(code: OperandCode) -> None:
    x = Operand(code, (2, 5), *quantization(code))
    outputs = replace(x, dimensions=(2, 3)), Operand(I32, (2, 3))
    model = single(spec.TOPK_V2, x, 3, out=outputs)
    array = np.array([[1, 2, 2, 0, 1], [3, 3, 3, 3, 3]], code.numpy)
    found = load(convert(model)).run({"i0": array})
    assert found["o0"].tolist() == [[2, 2, 1], [3, 3, 3]]
    assert found["o1"].tolist() == [[2, 1, 4], [4, 3, 2]]


def products(rows: int, columns: int) -> Model:
    """[rows, 256] by [256, columns], of integers."""
    shapes = (rows, 256), (256, columns), (rows, columns)
    x, y, out = (Operand(I32, shape) for shape in shapes)
    return single(spec.BATCH_MATMUL, x, y, False, False, out=out)


@LITERT
@pytest.mark.parametrize(("adj_x", "adj_y"), [(False, False), (True, False), (False, True)])
def test_products_of_integers_are_exact(adj_x: bool, adj_y: bool) -> None:
    """Modulo 2^32, as NNAPI's; the first factor's batch is broadcast."""
    x = Operand(I32, (1, 4, 3) if adj_x else (1, 3, 4))
    y = Operand(I32, (2, 5, 4) if adj_y else (2, 4, 5))
    out = Operand(I32, (2, 3, 5))
    matches(single(spec.BATCH_MATMUL, x, y, adj_x, adj_y, out=out), atol=0)


def averaged(
    row: spec.OperationSpec, padding: tuple[int, ...], stride: int = 1, code: OperandCode = F32
) -> Model:
    """A pool of 3 x 3 with a code of padding, or with pixels left, right, top, bottom."""
    pixels = padding if len(padding) == 4 else (padding[0] == PaddingCode.SAME,) * 4
    wide, high = (
        (n + a + b - 3) // stride + 1
        for n, a, b in zip((6, 8), pixels[::2], pixels[1::2], strict=True)
    )
    x = Operand(code, IMAGE, *quantization(code))
    numbers = *map(int, padding), stride, stride, 3, 3, int(FuseCode.RELU6)
    return single(row, x, *numbers, out=replace(x, dimensions=(1, high, wide, 2)))


@LITERT
@pytest.mark.parametrize("row", [spec.AVERAGE_POOL_2D, spec.L2_POOL_2D])
@pytest.mark.parametrize(
    ("padding", "stride"),
    [
        ((PaddingCode.VALID,), 1),
        ((PaddingCode.SAME,), 1),
        ((0, 0, 0, 0), 1),
        ((1, 1, 1, 1), 1),
        ((2, 2, 2, 2), 1),
        ((1, 0, 2, 1), 2),
    ],
)
def test_averages_leave_padding_out(row: spec.OperationSpec, padding: tuple[int, ...], stride: int):
    matches(averaged(row, padding, stride))


@LITERT
@pytest.mark.parametrize("code", [Q8, Q8S])
def test_quantized_averages_leave_padding_out(code: OperandCode) -> None:
    matches(averaged(spec.AVERAGE_POOL_2D, (2, 1, 1, 2), code=code), ONE_QUANTUM)


def transposed(padding: tuple[int, ...], code: OperandCode = F32) -> Model:
    """A transposed convolution of 3 x 3 by stride 2, padding left, right, top, bottom."""
    weights = np.random.default_rng(1).integers(1, 255, (2, 3, 3, 2))
    if code is F32:
        w, b = weights / 255, np.ones(2)
    else:
        w = constant(weights.astype(np.uint8), 0.01, 128)
        b = Operand(I32, (2,), 0.0005)  # not constant
    left, right, top, bottom = padding
    shape = 1, 9 - top - bottom, 7 - left - right, 2
    given = Operand(code, (1, 4, 3, 2), *quantization(code)), w, b, *padding, 2, 2, 0, False
    out = Operand(code, shape, *(0.1, 128) if code is Q8 else ())
    return one(spec.TRANSPOSE_CONV_2D, given, [out])


@LITERT
@pytest.mark.parametrize("code", [F32, Q8])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 2, 1), (1, 1, 1, 1)])
def test_transposed_convolutions_are_cut_off(padding: tuple[int, ...], code: OperandCode) -> None:
    matches(transposed(padding, code), ONE_QUANTUM if code is Q8 else SUMS)


@LITERT
@pytest.mark.parametrize("code", [F16, F32])
def test_float16_is_computed_as_float32(code: OperandCode) -> None:
    """Inputs, outputs and constants are float16."""
    draw = np.random.default_rng(1).uniform
    weights = (draw(-1, 1, size).astype(code.numpy) for size in ((3, 4), (3,)))
    given = Operand(code, (1, 4)), *weights, 1
    model = one(spec.FULLY_CONNECTED, given, [Operand(code, (1, 3))])
    matches(model, 2**-10 if code is F16 else SUMS)  # half of the last bit of 1


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (products(1 << 8, 1 << 8), ""),
        (products(1 << 8, 257), "16842752 products of integers in memory"),
        (
            single(spec.DIV, SIX, np.array([1, 2, 3, 4, 0, 6], np.int32), 0, out=SIX),
            "a divisor is 0 or -1, which may end LiteRT's process",
        ),
        (single(spec.DIV, SIX, SIX, 0, out=SIX), "operand input2 is not constant"),
        (unary(spec.SOFTMAX, -1.0, 1), "beta is not positive"),
    ],
)
def test_what_litert_computes_otherwise_is_declined(model: Model, reason: str) -> None:
    assert obstacles(model) == (reason,)


@LITERT
@pytest.mark.parametrize("code", [F32, Q8])
def test_weights_may_lie_behind_the_flatbuffer(code: OperandCode, tmp_path: Path) -> None:
    """Those that NNAPI stores alike are its own bytes; the others are flipped for int8 kernels."""
    model = chain(code)
    split, (array,) = convert_split(model), feed(model)
    assert len(split.data) + sum(w.bytes.size for w in split.weights) < len(convert(model)) + 512
    own = [o.value.bytes for o in model.operands if isinstance(o.value, Data)]
    shared = [any(np.shares_memory(w.bytes, data) for data in own) for w in split.weights]
    assert shared == [code is F32] * 3  # filters; biases are small
    offsets = [len(split.data) // 64 * 64 + 64 + 4096 * n for n in range(3)]
    file = bytearray(offsets[-1] + 4096)
    file[: len(split.data)] = split.placed(offsets)
    for weight, offset in zip(split.weights, offsets, strict=True):
        file[offset : offset + weight.bytes.size] = weight.bytes.tobytes()
    (tmp_path / "m").write_bytes(file)
    wanted = load(convert(model)).run({"i0": array})["o0"]
    for given in (file, tmp_path / "m"):
        np.testing.assert_array_equal(load(given).run({"i0": array})["o0"], wanted)


@LITERT
def test_weights_are_aligned_and_behind_the_flatbuffer() -> None:
    split = convert_split(chain())
    for wrong in (65536 + 4, 64):
        with pytest.raises(ValueError, match=f"weights at {wrong}, behind a flatbuffer of"):
            split.placed([65536, 131072, wrong])


pytestmark = LITERT
NHWC = (0, 2, 3, 1)


def doubled(code: OperandCode, shape: tuple[int, ...], **quantization: object) -> Model:
    operand = Operand(code, shape, **quantization)
    net = Network(operand)
    return net.model(net.operation(spec.ADD, [*net.inputs * 2, 0], operand))


def through(model: Model, port: FlatPort, array: np.ndarray) -> np.ndarray:
    inputs, outputs = [port], [FlatPort("y", port.dtype, port.shape, 0, port.perm)]
    found = load(convert(model, inputs, outputs)).run({port.name: array})
    return found["y"]


def test_layouts_change_at_the_edge() -> None:
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    port = FlatPort("x:0/image", array.dtype, array.shape, 0, NHWC)
    found = through(doubled(F32, (1, 3, 4, 2)), port, array)
    np.testing.assert_array_equal(found, 2 * array)


@pytest.mark.parametrize(("dtype", "code"), [(np.int64, I32), (np.float64, F32)])
def test_wide_numbers_are_cast(dtype: type[np.generic], code: OperandCode) -> None:
    array = np.array([[3, -4]], dtype)
    found = through(doubled(code, (1, 2)), FlatPort("x", array.dtype, array.shape, 0), array)
    assert found.dtype == dtype
    assert found.tolist() == [[6, -8]]


def test_int8_tensors_of_uint8_operands() -> None:
    """Zero point 128 there is 0 outside."""
    array = np.array([-100, 0, 50], np.int8)
    model = doubled(Q8, (3,), scale=0.5, zero_point=128)
    found = through(model, FlatPort("x", array.dtype, array.shape, 0), array)
    assert found.tolist() == [-128, 0, 100]


def test_shapes_change_at_the_edge() -> None:
    """Rank 0 is one element in NNAPI, rank 5 is flat."""
    for shape in ((), (1, 2, 1, 2, 1)):
        array = np.ones(shape, np.float32)
        model = doubled(F32, (array.size,))
        found = through(model, FlatPort("x", array.dtype, shape, 0), array)
        np.testing.assert_array_equal(found, 2 * array)


def test_one_tensor_in_two_layouts() -> None:
    x = Operand(F32, shape := (1, 2, 2, 2))
    array = np.arange(8, dtype=np.float32).reshape(shape)
    ports = [FlatPort("x", array.dtype, shape, n, perm) for n, perm in ((0, None), (1, NHWC))]
    made = convert(one(spec.SUB, [x, x, 0], [x]), ports, [FlatPort("y", array.dtype, shape, 0)])
    found = load(made)
    assert found.inputs == ("x",)
    np.testing.assert_array_equal(found.run({"x": array})["y"], array - array.transpose(NHWC))


def test_two_outputs_of_one_operand() -> None:
    x = Operand(F32, (2,))
    array = np.array([1, 2], np.float32)
    ports = [FlatPort(name, array.dtype, (2,), 0) for name in ("x", "y", "z")]
    found = load(convert(one(spec.NEG, [x], [x]), ports[:1], ports[1:])).run({"x": array})
    expected = {"y": [-1, -2], "z": [-1, -2]}
    assert {name: values.tolist() for name, values in found.items()} == expected


# The conformance cases: how many of them the writer takes


@pytest.mark.long
@pytest.mark.skipif(not conformance.FOLDER.exists(), reason="needs ../shared/nnapi_conformance")
def test_the_share_of_the_conformance_cases() -> None:
    """`test_device` runs those that it takes; the others have an operation with its reason.

    Inputs that a case omits are left out of its model: a .tflite has no optional ones.
    """
    taken, every, reasons = Counter(), Counter(), Counter()
    for case in conformance.cases():
        if not case.expect_failure:
            found = {
                re.sub(r"operand \d+", "an operand", why)
                for why in obstacles(conformance.model(case, without_omitted=True))
            }
            every.update({"all", *case.ops})
            taken.update({"all", *case.ops} if found == {""} else ())
            reasons.update(found - {""})
    table = [f"{taken[name]} of {count} {name}" for name, count in every.most_common()]
    table += [f"{count} declined: {reason}" for reason, count in reasons.most_common()]
    sys.stdout.write("\n".join(table))
    assert taken["all"] / every["all"] >= SHARE
