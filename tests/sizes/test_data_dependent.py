"""Data-dependent shapes: nodes that read them are taken, or refused with their producer."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi


def found(batch: int | str) -> bytes:
    """x [batch, 4] -> Relu -> NonZero -> Cast -> Mul, and x -> Neg: three data-dependent shapes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"], "search"),
        helper.make_node("Cast", ["places"], ["reals"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["reals", "two"], ["y"], "mul"),
        helper.make_node("Neg", ["x"], ["z"], "neg"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4])
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yz"]
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    graph = helper.make_graph(nodes, "g", [x], outs, [two])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def details(batch: int | str, **options: str) -> dict[str, str]:
    report = ep_nnapi.check(found(batch), **options)
    return {r.node: r.detail for r in report.rejections}


@pytest.mark.parametrize("batch", [2, "batch"])
def test_what_reads_them_is_taken(batch: int | str) -> None:
    assert details(batch).keys() == {"search"}


@pytest.mark.parametrize("options", [{"dynamic_shapes": "off"}, {"target": "builtin-nnapi"}])
def test_the_node_that_finds_them_is_named_where_only_known_sizes_are_taken(
    options: dict[str, str],
) -> None:
    seen = details(2, **options)
    assert seen.keys() >= {"search", "cast", "mul"}
    assert "places has a data-dependent shape, produced by search" in seen["cast"]
    assert "reals has a data-dependent shape, produced by search" in seen["mul"]


def test_sizes_of_inputs_are_to_be_fixed() -> None:
    assert details("batch", dynamic_shapes="off")["neg"] == (
        "x dimension 0 is 'batch'; fix it to a number"
    )
