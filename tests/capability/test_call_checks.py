"""Checks of calls: each finding, and that calls of the same kinds of operands are checked once."""

import numpy as np
import pytest

from ep_nnapi.capability import call_checks
from ep_nnapi.capability.call_checks import check_call
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import Call, View, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.options.target import Target

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


def test_constants_that_may_be_shapes_are_read_each_time(checked: list[Call]) -> None:
    def reshape(*shape: int) -> Call:
        wanted = Constant.of(np.array(shape, INT32))
        return apply(spec.RESHAPE, value("x", 6), shape=wanted, out=value("y", 2, 3))

    check(reshape(2, 3), reshape(2, 3))
    assert len(checked) == 2


def test_a_mismatch_is_found_each_time(checked: list[Call]) -> None:
    wrong = add(value("a", 2), value("b", 3), value("y", 3))
    for call in (wrong, wrong.with_origin(("n",))):
        with pytest.raises(Reject, match="ADD: ") as found:
            check(call)
        assert found.value.reason is Reason.SHAPE


@pytest.mark.parametrize(("floats", "times"), [(2**20, 1), (2**20 + 1, 2)])
def test_large_calls_are_compared_with_their_node_each_time(
    checked: list[Call], floats: int, times: int
) -> None:
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
