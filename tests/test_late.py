"""Sizes that no input settles are said to be such, by the node that does."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi


def found(batch: int | str) -> bytes:
    """x [batch, 4] -> Relu -> NonZero -> Squeeze, and x -> Neg: only Relu and Neg have sizes."""
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
def test_the_node_that_finds_them_is_named(batch: int | str) -> None:
    seen = details(batch)
    assert seen.keys() == {"search", "cast", "mul"}
    assert seen["cast"].startswith("places has a size that is known once search has run")
    assert seen["mul"].startswith("reals has a size that is known once search has run")


def test_what_an_input_settles_is_to_be_fixed() -> None:
    assert details("batch", dynamic_shapes="off")["neg"] == (
        "x dimension 0 is 'batch'; fix it to a number"
    )
