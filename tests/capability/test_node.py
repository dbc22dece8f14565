"""The check of one node: its lowering, its rejection with the first reason, its note."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.capability import node as capability
from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, SpecError
from ep_nnapi.operators.lib.node import KNOWN_OPSET
from ep_nnapi.options.target import Target
from tests.oracle import FL, accepts, boolean, f32, f64, i64, matches, node, on_cpu, rejects

X, Y = (Value(name, DType.FLOAT, (2, 3)) for name in "xy")
RELU = GraphNode(0, "relu", "Relu", "", 14, (X,), (Y,))


def rejected(given: GraphNode, target: Target = FL[8]) -> tuple[Reason, str]:
    found = judge(given, target)
    assert isinstance(found, Rejection)
    return found.reason, found.detail


def test_the_calls_of_a_capable_node_have_its_name_as_origin() -> None:
    found = judge(RELU, FL[1])
    assert isinstance(found, CapableNode)
    assert [(c.spec.name, c.origin) for c in found.calls] == [("RELU", ("relu",))]
    assert found.note == ""


def test_operators_and_opsets_out_of_range_are_rejected() -> None:
    assert rejected(replace(RELU, op_type="Nowhere"))[0] is Reason.OP
    newer = replace(RELU, since=KNOWN_OPSET + 1)
    assert rejected(newer)[0] is Reason.OPSET
    assert f"Relu-{KNOWN_OPSET + 1} is newer" in rejected(newer)[1]
    assert isinstance(judge(replace(RELU, since=KNOWN_OPSET), FL[8]), CapableNode)


@pytest.mark.parametrize("rank", [64, 65])
def test_ranks_up_to_that_of_numpy_are_read(rank: int) -> None:
    x, y = (replace(v, dims=(1,) * rank) for v in (X, Y))
    found = judge(replace(RELU, inputs=(x,), outputs=(y,)), FL[8])
    if rank == 64:
        assert isinstance(found, CapableNode)
    else:
        assert isinstance(found, Rejection)
        assert (found.reason, found.detail) == (Reason.RANK, "x has rank 65; the maximum is 64")


def test_an_empty_tensor_is_rejected() -> None:
    x, y = (replace(v, dims=(0, 3)) for v in (X, Y))
    reason, detail = rejected(replace(RELU, inputs=(x,), outputs=(y,)))
    expected = (Reason.SHAPE, "x has no elements; in NNAPI a size of 0 means unknown")
    assert (reason, detail) == expected


def test_int64_values_that_fit_are_narrowed() -> None:
    """An index below 3 fits INT32; an input of the model may have any value."""
    x, y = (Value(name, DType.INT64, (2, 3)) for name in "xy")
    neg = GraphNode(0, "neg", "Neg", "", 13, (x,), (y,))
    assert rejected(neg)[0] is Reason.DTYPE
    fitting = tuple(replace(v, fits_int32=True) for v in (x, y))
    found = judge(replace(neg, inputs=fitting[:1], outputs=fitting[1:]), FL[8])
    assert isinstance(found, CapableNode)
    values = [v for c in found.calls for v in (*c.inputs, *c.outputs) if isinstance(v, Value)]
    assert DType.INT64 not in {v.dtype for v in values}
    assert found.node.inputs[0] == fitting[0]  # the graph's node is unchanged


def test_unquantized_bytes_that_are_moved_get_the_identity_quantization() -> None:
    x, y = Value("x", DType.UINT8, (2, 3)), Value("y", DType.UINT8, (3, 2))
    transpose = GraphNode(0, "t", "Transpose", "", 13, (x,), (y,), {"perm": (1, 0)})
    found = judge(transpose, FL[8])
    assert isinstance(found, CapableNode)
    (call,) = found.calls
    assert isinstance(call.outputs[0], Value)
    assert call.outputs[0].quantization == Quantization((1.0,), (0,))


def test_the_level_is_that_of_the_operation() -> None:
    case = node("Transpose", f32(2, 3), perm=[1, 0])
    accepts(case, FL[2])
    rejects(case, FL[1], Reason.LEVEL, "TRANSPOSE")


def test_a_folded_node_writes_its_constant() -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    folded = replace(Y, constant=Constant.of(array), folded=True)
    found = judge(replace(RELU, op_type="Nowhere", outputs=(folded,)), FL[8])
    assert isinstance(found, CapableNode)
    read = [a.constant for c in found.calls for a in c.inputs if isinstance(a, Value)]
    assert any(c is not None and np.array_equal(c.array, array) for c in read)


def quantized(op_type: str, scale: float) -> GraphNode:
    """A QDQ group from scale 0.02 to `scale`."""
    x = Value("x", DType.UINT8, (2, 3), Quantization((0.02,), (100,)))
    y = replace(x, name="y", quantization=Quantization((scale,), (0,)))
    parts = (replace(RELU, op_type=op_type),)
    return GraphNode(0, "g", op_type, "", 13, (x,), (y,), parts=parts)


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (quantized("Sigmoid", 1 / 256), ""),
        (quantized("Sigmoid", 1 / 300), "requantized by 1 ADD: LOGISTIC cannot write the scale"),
        (quantized("Sigmoid", 1 / 600), "computed in floats: LOGISTIC computes with scale"),
    ],
    ids=["quantized", "requantized", "in floats"],
)
def test_a_group_notes_what_it_costs(given: GraphNode, note: str) -> None:
    found = judge(given, FL[4])
    assert isinstance(found, CapableNode)
    assert found.note.startswith(note)
    assert bool(found.note) == bool(note)


def test_a_group_rejected_in_both_ways_gives_both_reasons() -> None:
    reason, detail = rejected(quantized("Sigmoid", 1 / 600), FL[2])
    assert reason is Reason.QUANTIZATION
    assert "too coarse for y" in detail
    assert "; computed in floats: QUANTIZE" in detail


def test_a_defect_rejects_the_node_and_is_logged(monkeypatch, caplog):
    def failing(*arguments: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr(capability, "check_call", failing)
    with caplog.at_level(logging.ERROR, capability.__name__):
        expected = (Reason.OP, "its analysis failed, which is a defect of ep-nnapi: injected")
        assert rejected(RELU) == expected
    assert "Traceback" in caplog.text


def test_other_sizes_than_computed_are_the_models_if_only_a_declaration_gives_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before opset 11, shape inference takes no negative axis of a Concat; it knows any Relu."""

    def computes_others(*_: object) -> None:
        raise SpecError("it computes [9]")

    monkeypatch.setattr(capability, "check_call", computes_others)
    longer = replace(Y, dims=(4, 3))
    join = GraphNode(0, "join", "Concat", "", 4, (X, X), (longer,), attributes={"axis": -2})
    assert rejected(join) == (Reason.SHAPE, "y is only declared as [4, 3]; it computes [9]")
    assert caplog.records == []
    assert rejected(RELU)[0] is Reason.OP
    assert "defect of ep-nnapi: it computes [9]" in rejected(RELU)[1]


HEADS = f32(1, 2, 5, 8), f32(1, 2, 7, 8), f32(1, 2, 7, 8)
ROUNDED = {"rtol": 1e-5, "atol": 1e-6}  # sums of float32 in another order


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"scale": 0.3, "softcap": 2.0}])
def test_attention_is_computed_by_its_definition(attributes: dict[str, object]) -> None:
    case = node("Attention", *HEADS, opset=23, **attributes)
    matches(case, FL[3], **ROUNDED, oracle=on_cpu)
    (found,) = accepts(case, FL[3])
    assert found.note == "computed by ONNX's definition of it"
    assert {c.origin for c in found.calls} == {("node",)}


@pytest.mark.parametrize("mask", [f32(5, 7), boolean(5, 7)], ids=["added", "of flags"])
def test_attention_with_a_mask(mask) -> None:
    """A row that is hidden completely becomes 0."""
    case = node("Attention", *HEADS, mask, opset=23)
    rows = np.linspace(-1, 1, 35).reshape(5, 7)
    rows[1] = -np.inf
    given = rows if case.feeds["x3"].dtype == 1 else rows > 0
    matches(case, FL[3], **ROUNDED, feeds={"x3": given}, oracle=on_cpu)


def test_attention_of_shared_heads_and_a_cache() -> None:
    """Its second and third outputs are the cache with the new rows."""
    shared = node("Attention", f32(1, 5, 16), f32(1, 5, 8), f32(1, 5, 8), opset=23)
    shared.model.graph.node[0].attribute.extend(
        helper.make_attribute(n, i) for n, i in (("q_num_heads", 4), ("kv_num_heads", 2))
    )
    matches(shared, FL[3], **ROUNDED, oracle=on_cpu)
    step, cache = f32(1, 2, 1, 8), f32(1, 2, 6, 8)
    case = node("Attention", step, step, step, None, cache, cache, opset=23, outputs=3)
    matches(case, FL[3], **ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"rotary_embedding_dim": 4}])
def test_rotary_embedding_is_computed_by_its_definition(attributes: dict[str, int]) -> None:
    wide = attributes.get("rotary_embedding_dim", 8) // 2
    angles = f32(1, 5, wide), f32(1, 5, wide)
    case = node("RotaryEmbedding", f32(1, 2, 5, 8), *angles, opset=23, **attributes)
    matches(case, FL[3], **ROUNDED, oracle=on_cpu)


def test_what_the_definition_needs_is_the_reason() -> None:
    case, why = node("Attention", *HEADS, opset=23), "by ONNX's definition of Attention, "
    accepts(case, FL[2])
    rejects(case, FL[1], Reason.LEVEL, f"{why}Transpose: TRANSPOSE needs feature level 2")
    masked = node("Attention", *HEADS, f32(5, 7), opset=23)
    rejects(masked, FL[2], Reason.LEVEL, f"{why}ReduceMax: REDUCE_MAX needs feature level 3")
    of_doubles = node("Attention", f64(1, 2, 5, 8), f64(1, 2, 7, 8), f64(1, 2, 7, 8), opset=23)
    rejects(of_doubles, FL[8], Reason.DTYPE, f"{why}Unsqueeze: x1 is DOUBLE")
    sized_in_a_run = node("AffineGrid", f32(1, 2, 3), i64(4))
    rejects(sized_in_a_run, FL[8], Reason.DTYPE, "by ONNX's definition of AffineGrid, ")


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize(
    "size", [(2, 3, 5, 6), (1, 3, 5, 6), (1, 2, 4, 5, 6)], ids=["plane", "one plane", "space"]
)
def test_branches_of_a_definition_are_decided(size: tuple[int, ...], align: int) -> None:
    dims = len(size) - 2
    given = f32(size[0], dims, dims + 1), np.array(size)
    case = node("AffineGrid", *given, align_corners=align)
    matches(case, FL[4], rtol=1e-5, atol=1e-5)  # sums of three numbers up to 2


ROWS, POSITIONS = f32(2, 5, 16), i64(2, 5, low=0, high=8)
ANGLES = f32(9, 4), f32(9, 4)
LIKE_ROWS = [helper.make_tensor_type_proto(1, (2, 5, 16))]


def contributed(op_type: str, *given: object, like: object = LIKE_ROWS, **attributes: object):
    named = {"domain": "com.microsoft", "output_types": like, **attributes}
    return node(op_type, *given, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("attributes", [{}, {"interleaved": 1}, {"rotary_embedding_dim": 8}])
def test_rotary_embedding_of_positions_is_onnxs(attributes: dict[str, int]) -> None:
    case = contributed(
        "RotaryEmbedding", ROWS, POSITIONS, *ANGLES, **{"num_heads": 2, **attributes}
    )
    matches(case, FL[3], **ROUNDED, oracle=on_cpu)
    for given in (
        contributed("RotaryEmbedding", ROWS, POSITIONS, *ANGLES),
        contributed("RotaryEmbedding", ROWS, i64(1, low=0), *ANGLES, num_heads=2),
        contributed("RotaryEmbedding", ROWS, POSITIONS, *ANGLES, num_heads=2, scale=2.0),
    ):
        rejects(given, FL[8], Reason.OP, "a position for each row")
