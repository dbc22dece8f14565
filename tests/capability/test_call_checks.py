"""Checks of calls, each finding, once for the same kinds of operands; shapes and memory."""

import tracemalloc

import numpy as np
import pytest

from ep_nnapi.capability import call_checks
from ep_nnapi.capability.call_checks import check_call, check_shapes, operands_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.arguments import View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError
from ep_nnapi.options.target import Target
from tests.oracle import FL, Case, accepts, f16, f32, i64, matches, node, rejects

LEVEL = 8
NODE = GraphNode(0, "n", "Add", "", 14, (), ())
INT32 = np.int32


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The calls whose shapes were checked, beginning with no call known."""
    found: list[Call] = []
    check_shapes = call_checks.check_shapes

    def counted(call: Call) -> None:
        found.append(call)
        check_shapes(call)

    monkeypatch.setattr(call_checks, "check_shapes", counted)
    monkeypatch.setattr(call_checks, "_passed", {})
    return found


def value(name: str, *dims: int, dtype: DType = DType.FLOAT, **more: object) -> Value:
    return Value(name, dtype, dims, **more)  # type: ignore[arg-type]


def add(a: Value, b: Value, y: Value) -> Call:
    return apply(spec.ADD, a, b, out=y)


def check(*calls: Call) -> None:
    for call in calls:
        check_call(call, NODE, Target(LEVEL))


def test_calls_that_differ_in_names_only_are_checked_once(checked: list[Call]) -> None:
    first = add(value("a", 2, 3), value("b", 3), value("y", 2, 3))
    second = add(value("c", 2, 3), value("d", 3), value("z", 2, 3))
    check(first, second)
    assert checked == [first]
    assert second.match(LEVEL) is first.match(LEVEL)


def test_float_constants_are_not_read(checked: list[Call]) -> None:
    ones, twos = (Constant.of(np.full(3, n, np.float32)) for n in (1, 2))
    x, y = value("x", 2, 3), value("y", 2, 3)
    check(add(x, value("b", 3, constant=ones), y), add(x, value("b", 3, constant=twos), y))
    assert len(checked) == 1


@pytest.mark.parametrize(
    "other",
    [
        add(value("a", 2, 4), value("b", 4), value("y", 2, 4)),
        add(value("a", 3), value("b", 2, 3), value("y", 2, 3)),
        add(*(value(n, 2, 3, dtype=DType.FLOAT16) for n in "aby")),
        apply(spec.MUL, value("a", 2, 3), value("b", 3), out=value("y", 2, 3)),
        apply(spec.ADD, value("a", 2, 3), value("b", 3), activation=1, out=value("y", 2, 3)),
    ],
    ids=["sizes", "order", "type", "operation", "scalar"],
)
def test_others_are_checked(checked: list[Call], other: Call) -> None:
    check(add(value("a", 2, 3), value("b", 3), value("y", 2, 3)), other)
    assert len(checked) == 2


def test_the_feature_level_matters(checked: list[Call]) -> None:
    half = add(*(value(n, 2, dtype=DType.FLOAT16) for n in "aby"))
    check(half)
    with pytest.raises(Reject, match="needs feature level 3"):
        check_call(half.with_origin(("n",)), NODE, Target(2))


def test_scales_and_layouts_matter(checked: list[Call]) -> None:
    def relu(scale: float) -> Call:
        q = Quantization((scale,), (0,))
        x, y = (value(n, 2, dtype=DType.UINT8, quantization=q) for n in "xy")
        return apply(spec.RELU, x, out=y)

    image = value("x", 1, 2, 3, 4)
    check(relu(0.5), relu(0.25))
    check(apply(spec.RELU, image, out=value("y", 1, 2, 3, 4)))
    nhwc = (0, 2, 3, 1)
    check(apply(spec.RELU, View(image, nhwc), out=View(value("y", 1, 2, 3, 4), nhwc)))
    assert len(checked) == 4


def test_constants_that_may_be_shapes_differ_by_their_elements(checked: list[Call]) -> None:
    def reshape(*shape: int) -> Call:
        wanted = Constant.of(np.array(shape, INT32))
        return apply(spec.RESHAPE, value("x", 6), shape=wanted, out=value("y", 2, 3))

    check(reshape(2, 3), reshape(2, 3))
    assert len(checked) == 1
    check(reshape(2, -1), reshape(-1, 3))
    assert len(checked) == 3


def test_a_mismatch_is_found_each_time(checked: list[Call]) -> None:
    wrong = add(value("a", 2), value("b", 3), value("y", 3))
    for call in (wrong, wrong.with_origin(("n",))):
        with pytest.raises(Reject, match="ADD: ") as found:
            check(call)
        assert found.value.reason is Reason.SHAPE


@pytest.mark.parametrize(("floats", "times"), [(2**20, 1), (2**20 + 1, 2)])
def test_large_calls_are_compared_with_their_node_each_time(checked, floats, times):
    x, y = value("x", floats), value("y", floats)
    node = GraphNode(0, "n", "Relu", "", 14, (x,), (y,))
    for _ in range(2):
        check_call(apply(spec.RELU, x, out=y), node, Target(LEVEL))
    assert len(checked) == times


def test_the_calls_known_are_limited(checked: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_checks, "_MOST_PASSED", 3)
    for size in range(1, 9):
        check(apply(spec.RELU, value("x", size), out=value("y", size)))
        assert len(call_checks._passed) <= 3


FLOATS = 2**20  # in 4 MiB, which are always taken


def roi_align(samples: int) -> Case:
    """One bin of a region in an image of 4 x 4: 4 distances for each sampling point."""
    regions = np.array([[0, 0, 3, 3]], np.float32)
    return node("RoiAlign", f32(1, 1, 4, 4), regions, np.array([0]), sampling_ratio=samples)


def conv(**attributes: object) -> Case:
    return node("Conv", f32(1, 2, 8, 8), np.ones((2, 2, 3, 3), np.float32), **attributes)


def pool(op_type: str, kernel: int) -> Case:
    """Of one image of 8 x 8, with as much padding as ONNX allows."""
    window = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}
    return node(op_type, f32(1, 1, 8, 8), **window)


# intermediates: 4 MiB, and 16 times the node's own bytes


def test_sampling_points_of_regions():
    accepts(roi_align(FLOATS // 4), FL[7])
    rejects(roi_align(FLOATS), FL[7], Reason.SIZE, "SUB computes a tensor of 16777216 bytes")


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (10**7, "MUL reads a derived constant of 40000000 bytes; a node of these sizes is limited"),
        (2**30, "has 4294967296 bytes; NNAPI's maximum is 4294967295"),
        (2**31, "2147483648 does not fit INT32"),
        (2**62, "4611686018427387904 does not fit INT32"),
    ],
)
def test_points_are_not_made_before_they_are_refused(samples: int, says: str):
    tracemalloc.start()
    rejects(roi_align(samples), FL[7], Reason.SIZE, says)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


# constants: 4 MiB, and 4 times those of the node


@pytest.mark.parametrize("k", [-(2**63), -3, 0, 2, 2**63 - 1])
def test_the_diagonal_of_a_matrix(k: int):
    matches(
        node("EyeLike", f32(4, 6), k=k), FL[8], reference=[np.eye(4, 6, max(-9, min(k, 9)), "f4")]
    )


def test_matrices_of_ones_and_zeros():
    accepts(node("EyeLike", f32(1024, 1024)), FL[8])
    past = node("EyeLike", f32(1025, 1024))
    rejects(past, FL[8], Reason.SIZE, "RESHAPE reads a derived constant of 4198400")


def test_a_triangle_that_is_kept():
    accepts(node("Trilu", f32(1024, 4096)), FL[8])
    rejects(node("Trilu", f32(1025, 4096)), FL[8], Reason.SIZE, "reads a derived constant")


# scratch memory: 65536 elements, and 16 times the operands'


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
def test_padding_of_pools(op_type: str):
    accepts(pool(op_type, 128), FL[8])
    rejects(pool(op_type, 512), FL[8], Reason.SIZE, "POOL_2D needs scratch memory")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"pads": [30_000] * 4, "dilations": [30_000] * 2}, "CONV_2D needs scratch memory"),
        ({"pads": [2**20] * 4, "dilations": [2**20] * 2}, "CONV_2D needs scratch memory"),
        ({"pads": [2**30] * 4, "strides": [2**29] * 2}, "PAD computes a tensor"),
    ],
    ids=str,
)
def test_padding_of_convolutions(attributes: dict[str, list[int]], message: str):
    accepts(conv(pads=[80] * 4, strides=[50] * 2), FL[3])
    rejects(conv(**attributes), FL[3], Reason.SIZE, message)


def test_a_transposed_convolution_that_is_cut_to_little():
    weights = np.ones((1, 1, 3, 3), np.float32)

    def cut(stride: int) -> Case:
        """The first element of [stride + 3, stride + 3]."""
        pads, strides = [0, 0, stride + 2, stride + 2], [stride] * 2
        return node("ConvTranspose", f32(1, 1, 2, 2), weights, pads=pads, strides=strides)

    accepts(cut(250), FL[3])
    rejects(cut(300), FL[3], Reason.SIZE, "TRANSPOSE_CONV_2D needs scratch memory")


# integers


@pytest.mark.parametrize("stride", [2**31, 2**62])
def test_strides_of_more_than_32_bits(stride: int):
    accepts(conv(strides=[2**31 - 1] * 2), FL[3])
    says = f"CONV_2D.stride_width is {stride}, which does not fit INT32"
    rejects(conv(strides=[stride] * 2), FL[3], Reason.ATTRIBUTE, says)


def test_a_flag_that_is_none():
    window = {"kernel_shape": [3, 3], "strides": [3, 3]}
    accepts(node("LpPool", f32(1, 1, 8, 8), ceil_mode=1, **window), FL[8])
    past = node("LpPool", f32(1, 1, 8, 8), ceil_mode=2, **window)
    rejects(past, FL[8], Reason.ATTRIBUTE, "ceil_mode is 2; ONNX has 0, 1")


def test_lists_of_integers_of_more_than_32_bits():
    case = node("Gather", f32(4), i64(2))
    accepts(case, FL[8])
    blocks = node("MaxPool", f32(1, 1, 8, 8), kernel_shape=[1, 1], dilations=[2**31] * 2)
    rejects(blocks, FL[8], Reason.SIZE, "2147483648 does not fit INT32")


# floats: finite in the operand's type


@pytest.mark.parametrize("op_type", ["Elu", "LeakyRelu"])
def test_a_factor_beyond_float16_is_left_to_the_cpu(op_type: str):
    """ONNX's attribute is float32, in which the products are finite."""
    accepts(node(op_type, f16(2, 3), alpha=65504.0), FL[8])
    rejects(
        node(op_type, f16(2, 3), alpha=65536.0), FL[8], Reason.ATTRIBUTE, "65536, too large for"
    )
    accepts(node(op_type, f32(2, 3), alpha=65536.0), FL[8])


def test_a_slope_beyond_float32_is_refused():
    accepts(node("HardSigmoid", f32(2, 3), alpha=5e37), FL[8])
    case = node("HardSigmoid", f32(2, 3), alpha=6e37)
    rejects(case, FL[8], Reason.ATTRIBUTE, "3.6e+38, too large for float32")


def tensor(name: str, *dims: int) -> Value:
    return Value(name, DType.FLOAT, dims)


def added(a: Value, b: Value, y: Value) -> Call:
    return apply(spec.ADD, a, b, activation=0, out=y)


def test_broadcasting_agrees() -> None:
    check_shapes(added(tensor("a", 2, 1), tensor("b", 3), tensor("y", 2, 3)))


def test_a_scalar_has_one_element() -> None:
    check_shapes(added(tensor("a"), tensor("b"), tensor("y")))


def test_inconsistent_operands_reject_the_node() -> None:
    with pytest.raises(Reject, match="ADD: ") as rejected:
        check_shapes(added(tensor("a", 2), tensor("b", 3), tensor("y", 3)))
    assert rejected.value.reason is Reason.SHAPE


@pytest.mark.parametrize("dims", [(3, 2), (6,), (2, 3, 1)])
def test_another_declared_shape_is_a_defect(dims: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match=r"ADD computes \[2, 3\] for y"):
        check_shapes(added(tensor("a", 2, 3), tensor("b", 2, 3), tensor("y", *dims)))


def test_the_elements_of_a_shape_are_read() -> None:
    shape = Constant.of(np.array([3, 2], np.int32))
    check_shapes(apply(spec.RESHAPE, tensor("x", 6), shape=shape, out=tensor("y", 3, 2)))
    with pytest.raises(SpecError, match=r"RESHAPE computes \[3, 2\] for y"):
        check_shapes(apply(spec.RESHAPE, tensor("x", 6), shape=shape, out=tensor("y", 2, 3)))


def test_large_constants_are_not_loaded() -> None:
    def load() -> np.ndarray:
        raise AssertionError("loaded")

    weights = Value("w", DType.INT32, (65,), constant=Constant((65,), DType.INT32, load))
    assert "input2" in operands_of(added(tensor("a", 65), weights, tensor("y", 65)))
