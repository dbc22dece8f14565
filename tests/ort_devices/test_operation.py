"""Operations as lowerings see them: operands by name, results, fused activations, layouts."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.host.kernel import named_operations
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.graph import Inexpressible, OnnxGraph
from ep_nnapi.ort_devices.lowering import find
from ep_nnapi.ort_devices.lowering.movement import concatenation
from ep_nnapi.ort_devices.operation import Op, row, table
from ep_nnapi.ort_devices.scope import TO_NCHW, Scope, identity
from tests.nnapi.build import one

SHAPE = (1, 2, 3, 4)


def lowered(model: Model, *perms: tuple[int, ...]) -> Op:
    """The model's one operation; its inputs are defined in these layouts."""
    shapes = {i: o.dimensions for i, o in enumerate(model.operands)}
    scope = Scope(OnnxGraph(), model, shapes)
    for n, index in enumerate(model.inputs):
        scope.define(index, f"x{n}", perms[n] if perms else None, real=False)
    (named,) = named_operations(model, 8)
    return Op(scope, named, lambda *_: pytest.fail("no model inside"))


def added(activation: int = FuseCode.NONE, **quantization: float) -> Op:
    each = Operand(Q8 if quantization else F32, SHAPE, **quantization)
    return lowered(one(spec.ADD, [each, each, int(activation)], [each]))


def joined(*perms: tuple[int, ...], channels: int = SHAPE[3]) -> Op:
    parts = (Operand(F32, (*SHAPE[:3], n)) for n in (channels, SHAPE[3]))
    out = Operand(F32, (*SHAPE[:3], channels + SHAPE[3]))
    return lowered(one(spec.CONCATENATION, [*parts, 3], [out]), *perms)


def nodes(op: Op) -> list[str]:
    return [node.op_type for node in op.scope.graph.nodes]


def test_operands_have_the_names_of_the_specification():
    op = added(FuseCode.RELU)
    assert [op.index(n) for n in ("input1", "input2", "activation", "output")] == [0, 1, 2, 3]
    assert op.shape("input1") == SHAPE
    assert op.given("activation")
    assert not op.given("layout")
    assert op.number("activation") == FuseCode.RELU
    assert op.scalars() == {"activation": FuseCode.RELU}
    with pytest.raises(Inexpressible, match="operand scale is missing"):
        op.index("scale")


def test_a_repeated_operand_has_several_indexes():
    op = joined()
    assert op.indexes("inputs") == (0, 1)
    assert op.indexes("output") == (3,)
    assert op.number("axis") == 3
    with pytest.raises(Inexpressible, match="operand inputs is missing"):
        op.index("inputs")


def test_operands_that_must_be_constant_are_read_or_refused():
    ends = Operand(F32, (2, 3)), Operand(F32, (3, 2))
    op = lowered(one(spec.TRANSPOSE, [ends[0], np.array([1, 0])], ends[1:]))
    assert op.ints("perm") == (1, 0)
    with pytest.raises(Inexpressible, match="operand input is not constant"):
        op.ints("input")


@pytest.mark.parametrize(("given", "axis"), [(0, 0), (3, 3), (-1, 3), (-4, 0)])
def test_axes_count_from_the_front(given, axis):
    assert added().axis("missing", 4, given) == axis


@pytest.mark.parametrize("given", [4, -5])
def test_axes_that_there_are_not_are_refused(given):
    with pytest.raises(Inexpressible, match=f"axis {given} of a tensor of rank 4"):
        added().axis("missing", 4, given)


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [
        (FuseCode.NONE, []),
        (FuseCode.RELU, ["Relu"]),
        (FuseCode.RELU1, ["Clip"]),
        (FuseCode.RELU6, ["Clip"]),
    ],
)
def test_float_results_are_activated(activation, wanted):
    op = added(activation)
    op.finish("sum")
    assert nodes(op) == wanted


@pytest.mark.parametrize(
    ("activation", "ends"),
    [
        (FuseCode.NONE, None),
        (FuseCode.RELU, (28, 255)),  # 0 is stored as 28
        (FuseCode.RELU1, (18, 38)),  # -1 and 1: ten quanta from it
        (FuseCode.RELU6, (28, 88)),
    ],
)
def test_quantized_results_are_clipped_as_stored(activation, ends):
    op = added(activation, scale=0.1, zero_point=28)
    assert op.coded
    op.finish("sum")
    assert nodes(op) == ["QuantizeLinear"] + ["Clip"] * (ends is not None)
    if ends:
        names = op.scope.graph.nodes[-1].input[1:]
        tensors, _ = op.scope.graph.constants.build({*names})
        values = {t.name: np.frombuffer(t.raw_data, np.uint8) for t in tensors}
        low, high = (values[name].item() for name in names)
        assert (low, high) == ends


def test_a_clip_to_the_whole_range_is_left_out():
    """RELU6 of numbers from 0 to 5.1: all that can be stored."""
    op = added(FuseCode.RELU6, scale=0.02, zero_point=0)
    op.clamp("stored")
    assert nodes(op) == []


def test_results_are_delivered_as_numbers_or_as_stored():
    real, stored = added(scale=0.1, zero_point=28), added(scale=0.1, zero_point=28)
    real.deliver("sum")
    stored.keep("sum")
    assert nodes(real) == ["QuantizeLinear"]
    assert nodes(stored) == []
    assert stored.stored("output") == "sum"
    assert stored.real("output") != "sum"


def element_wise(a: tuple[int, ...], b: tuple[int, ...], *perms: tuple[int, ...]) -> Op:
    x, y, out = (Operand(F32, shape) for shape in (a, b, SHAPE))
    return lowered(one(spec.ADD, [x, y, 0], [out]), *perms)


def test_element_wise_operations_keep_the_layout_of_their_operands():
    op = element_wise(SHAPE, SHAPE, TO_NCHW, TO_NCHW)
    assert op.layout("input1", "input2") == TO_NCHW
    assert op.broadcast("input1", TO_NCHW) == "x0"
    assert nodes(op) == []


def test_one_plain_operand_of_the_same_size_makes_the_layout_plain():
    expected = identity(4)
    assert element_wise(SHAPE, SHAPE, TO_NCHW, identity(4)).layout("input1", "input2") == expected


@pytest.mark.parametrize("b", [SHAPE[3:], (1, 1, 1, SHAPE[3])], ids=["of lower rank", "wide"])
def test_a_smaller_operand_is_transposed_to_the_layout_of_the_larger(b):
    op = element_wise(SHAPE, b, TO_NCHW, identity(len(b)))
    assert op.layout("input1", "input2") == TO_NCHW
    op.broadcast("input2", TO_NCHW)
    assert nodes(op) == ["Reshape"] * (len(b) == 1) + ["Transpose"]


@pytest.mark.parametrize("b", [(1,), (1, 1, 1, 1)], ids=str)
def test_one_element_has_every_layout(b):
    op = element_wise(SHAPE, b, TO_NCHW, identity(len(b)))
    assert op.layout("input1", "input2") == TO_NCHW
    assert op.broadcast("input2", TO_NCHW) == "x1"
    assert nodes(op) == []


def test_the_largest_operand_of_lower_rank_makes_the_layout_plain():
    op = element_wise((1, 1, 1, SHAPE[3]), SHAPE[1:], TO_NCHW, identity(3))
    assert op.layout("input1", "input2") == identity(4)


def test_operands_of_lower_rank_are_widened_before_they_are_transposed():
    op = element_wise(SHAPE, (4,), TO_NCHW, (0,))
    op.broadcast("input2", TO_NCHW)
    assert nodes(op) == ["Reshape", "Transpose"]
    assert element_wise(SHAPE, (4,)).broadcast("input2", identity(4)) == "x1"


@pytest.mark.parametrize(("channels", "perm"), [(4, TO_NCHW), (3, TO_NCHW), (5, identity(4))])
def test_tensors_are_joined_in_the_layout_of_convolutions_if_most_have_it(channels, perm):
    op = joined(identity(4), TO_NCHW, channels=channels)
    concatenation(op)
    assert op.scope.perms(op.index("output")) == [perm]
    assert nodes(op) == ["Transpose", "Concat"]


def first(op: Op) -> None:
    """A lowering."""


def second(op: Op) -> None:
    """Another lowering."""


def test_a_row_has_an_entry_for_each_of_its_types():
    expected = {(spec.RELU, F32): first, (spec.RELU, Q8): first, (spec.RELU, Q8S): second}
    assert table(row(spec.RELU, first, F32, Q8), row(spec.RELU, second, Q8S)) == expected


def test_a_row_without_types_is_for_operations_of_any_type():
    assert table(row(spec.RANK, first)) == {(spec.RANK, None): first}


def test_two_rows_for_one_type_are_an_error():
    with pytest.raises(ValueError, match="RELU has two lowerings for TENSOR_FLOAT32"):
        table(row(spec.RELU, first, F32), row(spec.RELU, second, Q8, F32))


def test_the_device_finds_the_row_of_the_type():
    assert find(spec.RELU, F32) is not None
    assert find(spec.RELU, Q8) is not None
    assert find(spec.RANDOM_MULTINOMIAL, F32) is None
