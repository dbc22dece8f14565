"""NNAPI models as flatbuffers: what they compute, and what is declined.

nnapi-reference, whose kernels are this package's own, says what is right.
"""

import numpy as np
import pytest

from ep_nnapi.litert.convert import Port, convert, obstacles
from ep_nnapi.litert.interpreter import load
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode, OperandCode, PaddingCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S
from tests.litert.needs import LITERT
from tests.ort_devices.networks import Network, chain, feed

ONE_QUANTUM = 1
SUMS = 1e-5  # of some dozens of products, in another order


def reference(model: Model, feeds: list[np.ndarray]) -> list[np.ndarray]:
    runtime = HostRuntime((ReferenceDevice(),))
    return runtime.compile(model, runtime.devices()[0]).run(feeds)


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
    net = Network()
    x = net.add(Operand(code, (1, 4, 6, 2), *quantization(code)))
    out = {"dimensions": (1, 4, 6, 2)} | output
    y = net.operation(row, [x, *map(net.scalar, scalars)], Operand(code, **out))
    return net.model([x], [y])


def quantization(code: OperandCode) -> tuple[float, int]:
    return {Q8: (0.05, 128), Q8S: (0.05, 0)}.get(code, (0.0, 0))


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
def test_explicit_padding_matches(
    padding: tuple[int, ...], pool: spec.OperationSpec | None
) -> None:
    """That of SAME, of VALID and neither; left, right, top, bottom."""
    net = Network()
    x = net.add(Operand(F32, (1, 8, 6, 2)))
    left, right, top, bottom = padding
    shape = (1, (8 + top + bottom - 3) // 2 + 1, (6 + left + right - 3) // 2 + 1, 2)
    ends = [net.scalar(int(n)) for n in (*padding, 2, 2)]
    if pool is None:
        w = net.tensor(net.random.uniform(-1, 1, (2, 3, 3, 2)), F32)
        b = net.tensor(net.random.uniform(-1, 1, 2), F32)
        given = [x, w, b, *ends, net.scalar(int(FuseCode.RELU6))]
        y = net.operation(spec.CONV_2D, given, Operand(F32, shape))
    else:
        given = [x, *ends, net.scalar(3), net.scalar(3), net.scalar(0)]
        y = net.operation(pool, given, Operand(F32, shape))
    matches(net.model([x], [y]))


@LITERT
@pytest.mark.parametrize(
    ("row", "scalars"),
    [
        (spec.LOGISTIC, ()),
        (spec.TANH, ()),
        (spec.RELU6, ()),
        (spec.ELU, (1.0,)),
        (spec.SOFTMAX, (0.5, 1)),
        (spec.L2_NORMALIZATION, (2,)),
        (spec.INSTANCE_NORMALIZATION, (2.0, 0.5, 1e-3, False)),
        (spec.CHANNEL_SHUFFLE, (3, 2)),
        (spec.LOCAL_RESPONSE_NORMALIZATION, (1, 1.0, 0.5, 0.5)),
    ],
)
def test_operations_of_one_tensor_match(
    row: spec.OperationSpec, scalars: tuple[float, ...]
) -> None:
    matches(unary(row, *scalars))


@LITERT
@pytest.mark.parametrize("code", [Q8, Q8S])
def test_quantized_outputs_of_fixed_scales_match(code: OperandCode) -> None:
    zero = 0 if code is Q8 else -128
    matches(unary(spec.LOGISTIC, code=code, scale=1 / 256, zero_point=zero), ONE_QUANTUM)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (unary(spec.FLOOR, code=F16), "LiteRT has no kernels for TENSOR_FLOAT16"),
        (unary(spec.ELU, 0.5), "alpha is 0.5, LiteRT's ELU has 1"),
        (unary(spec.LOG_SOFTMAX, 2.0, 3), "beta is 2, LiteRT's LOG_SOFTMAX has 1"),
    ],
)
def test_what_litert_computes_otherwise_is_declined(model: Model, reason: str) -> None:
    assert obstacles(model) == (reason,)


def test_top_elements_are_declined() -> None:
    """LiteRT puts the first of equal elements first, NNAPI the last."""
    net = Network()
    x = net.add(Operand(F32, (4,)))
    outputs = Operand(F32, (2,)), Operand(I32, (2,))
    first = net.operation(spec.TOPK_V2, [x, net.scalar(2)], *outputs)
    model = net.model([x], [first, first + 1])
    assert obstacles(model) == ("LiteRT has no TOPK_V2 of TENSOR_FLOAT32",)


def averaged(padding: int, code: int | None = None) -> Model:
    net = Network()
    x = net.add(Operand(F32, (1, 8, 6, 2)))
    size = (8 + 2 * padding - 3) // 1 + 1, (6 + 2 * padding - 3) // 1 + 1
    ends = [padding] * 4 if code is None else [code]
    given = [x, *map(net.scalar, [*map(int, ends), 1, 1, 3, 3, 0])]
    y = net.operation(spec.AVERAGE_POOL_2D, given, Operand(F32, (1, *size, 2)))
    return net.model([x], [y])


@LITERT
def test_averages_leave_padding_out() -> None:
    matches(averaged(1))  # as SAME
    matches(averaged(0))  # as VALID
    matches(averaged(0, PaddingCode.VALID))


def test_averages_with_other_padding_are_declined() -> None:
    assert obstacles(averaged(2)) == ("its padding is neither SAME nor VALID",)


pytestmark = LITERT
NHWC = (0, 2, 3, 1)


def doubled(code: OperandCode, shape: tuple[int, ...], **quantization: object) -> Model:
    net = Network()
    operand = Operand(code, shape, **quantization)
    x = net.add(operand)
    return net.model([x], [net.operation(spec.ADD, [x, x, net.scalar(0)], operand)])


def computed(model: Model, port: Port, array: np.ndarray) -> np.ndarray:
    inputs, outputs = [port], [Port("y", port.dtype, port.shape, 0, port.perm)]
    found = load(convert(model, inputs, outputs)).run({port.name: array})
    return found["y"]


def test_layouts_change_at_the_edge() -> None:
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    port = Port("x:0/image", array.dtype, array.shape, 0, NHWC)
    found = computed(doubled(F32, (1, 3, 4, 2)), port, array)
    np.testing.assert_array_equal(found, 2 * array)


@pytest.mark.parametrize(("dtype", "code"), [(np.int64, I32), (np.float64, F32)])
def test_wide_numbers_are_cast(dtype: type[np.generic], code: OperandCode) -> None:
    array = np.array([[3, -4]], dtype)
    found = computed(doubled(code, (1, 2)), Port("x", array.dtype, array.shape, 0), array)
    assert found.dtype == dtype
    assert found.tolist() == [[6, -8]]


def test_int8_tensors_of_uint8_operands() -> None:
    """Zero point 128 there is 0 outside."""
    array = np.array([-100, 0, 50], np.int8)
    model = doubled(Q8, (3,), scale=0.5, zero_point=128)
    found = computed(model, Port("x", array.dtype, array.shape, 0), array)
    assert found.tolist() == [-128, 0, 100]


def test_shapes_change_at_the_edge() -> None:
    """Rank 0 is one element in NNAPI, rank 5 is flat."""
    for shape in ((), (1, 2, 1, 2, 1)):
        array = np.ones(shape, np.float32)
        model = doubled(F32, (array.size,))
        found = computed(model, Port("x", array.dtype, shape, 0), array)
        np.testing.assert_array_equal(found, 2 * array)


def test_one_tensor_in_two_layouts() -> None:
    net = Network()
    shape = (1, 2, 2, 2)
    first, second = (net.add(Operand(F32, shape)) for _ in range(2))
    y = net.operation(spec.SUB, [first, second, net.scalar(0)], Operand(F32, shape))
    array = np.arange(8, dtype=np.float32).reshape(shape)
    ports = [Port("x", array.dtype, shape, n, perm) for n, perm in ((0, None), (1, NHWC))]
    made = convert(net.model([first, second], [y]), ports, [Port("y", array.dtype, shape, 0)])
    found = load(made)
    assert found.inputs == ("x",)
    np.testing.assert_array_equal(found.run({"x": array})["y"], array - array.transpose(NHWC))


def test_two_outputs_of_one_operand() -> None:
    net = Network()
    x = net.add(Operand(F32, (2,)))
    y = net.operation(spec.NEG, [x], Operand(F32, (2,)))
    array = np.array([1, 2], np.float32)
    ports = [Port(name, array.dtype, (2,), 0) for name in ("x", "y", "z")]
    found = load(convert(net.model([x], [y]), ports[:1], ports[1:])).run({"x": array})
    assert {name: values.tolist() for name, values in found.items()} == {
        "y": [-1, -2],
        "z": [-1, -2],
    }
