"""One node that cannot be read, or not be lowered, costs the model that node only."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.errors import Rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.provider import planner as planning
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import WAYS, quiet

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def model(*nodes: onnx.NodeProto, **constants: object) -> bytes:
    """From x to y, both [2, 3], between a Relu at the start and a Neg at the end."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3)) for n in "xy"]
    first, last = helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["z"], ["y"])
    given = [numpy_helper.from_array(np.asarray(c), n) for n, c in constants.items()]
    graph = helper.make_graph([first, *nodes, last], "odd", ends[:1], ends[1:], given)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def optional() -> bytes:
    """With an attribute that is a type, which ONNX Runtime's C API does not read."""
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
    return model(
        helper.make_node("Optional", ["a"], ["o"], "boxed", type=kind),
        helper.make_node("OptionalGetElement", ["o"], ["z"], "unboxed"),
    )


def deep(rank: int) -> bytes:
    """With a tensor of that rank in between."""
    return model(
        helper.make_node("Reshape", ["a", "many"], ["d"], "deep"),
        helper.make_node("Abs", ["d"], ["e"], "abs"),
        helper.make_node("Reshape", ["e", "few"], ["z"], "flat"),
        many=[2, 3, *[1] * (rank - 2)],
        few=[2, 3],
    )


def stride(size: int) -> bytes:
    """With a convolution whose stride is `size`."""
    window = {"kernel_shape": [1, 1], "strides": [size, size], "pads": [0, 0, 1, 2]}
    return model(
        helper.make_node("Reshape", ["a", "image"], ["i"], "up"),
        helper.make_node("Conv", ["i", "w"], ["c"], "conv", **window),
        helper.make_node("Add", ["a", "c"], ["s"], "add"),
        helper.make_node("Reshape", ["s", "few"], ["z"], "down"),
        image=[1, 1, 2, 3],
        w=np.ones((1, 1, 1, 1), np.float32),
        few=[2, 3],
    )


def computes_the_same(content: bytes) -> None:
    cpu = session_of(content, quiet())
    ours = WAYS["append_execution_provider"](content, quiet())
    np.testing.assert_array_equal(ours.run(None, {"x": X})[0], cpu.run(None, {"x": X})[0])


def refused(content: bytes) -> dict[str, Rejection]:
    """Reasons why nodes are left to the CPU, by name; Relu and Neg are always taken."""
    report = ep_nnapi.check(content)
    assert {"a", "y"} <= {name for c in report.clusters for name in c.nodes}
    return {r.node: r for r in report.rejections}


def test_an_attribute_of_a_kind_that_is_not_read():
    assert refused(optional()).keys() == {"boxed", "unboxed"}
    computes_the_same(optional())


def test_a_rank_that_is_not_read():
    # Abs of rank 64 is taken as a row
    assert not refused(deep(64))
    why = refused(deep(65))
    assert why.keys() == {"deep", "abs", "flat"}
    assert why["abs"].reason is Reason.RANK
    assert why["abs"].detail == "d has rank 65; the maximum is 64"
    computes_the_same(deep(64))
    computes_the_same(deep(65))


@pytest.mark.parametrize("size", [2**31, 2**62])
def test_a_stride_of_more_than_32_bits(size: int):
    assert not refused(stride(2**31 - 1))
    assert refused(stride(size))["conv"].reason is Reason.ATTRIBUTE
    computes_the_same(stride(size))


def test_a_defect_in_lowering_costs_its_node(monkeypatch: pytest.MonkeyPatch):
    build = planning.Planner._compile

    def defective(self, cluster, verdicts, readers):
        if any(verdicts.nodes[i].op_type == "Abs" for i in cluster):
            raise ZeroDivisionError("division by zero")
        return build(self, cluster, verdicts, readers)

    monkeypatch.setattr(planning.Planner, "_compile", defective)
    why = refused(model(helper.make_node("Abs", ["a"], ["z"], "abs")))
    assert why.keys() == {"abs"}
    assert why["abs"].detail == (
        "its cluster cannot be compiled, which is a defect of ep-nnapi: division by zero"
    )


def test_planning_that_fails_is_no_report(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    """ONNX Runtime goes on without the provider, so check must not say 0 of 0 nodes."""
    from ep_nnapi.ort import ep

    def failing(handle, reader):
        raise ep.OrtError("onnxruntime: there is no such graph")

    monkeypatch.setattr(ep, "read_graph", failing)
    with pytest.raises(ep_nnapi.NnapiError, match="there is no such graph"):
        ep_nnapi.check(deep(4))
    (tmp_path / "m.onnx").write_bytes(deep(4))
    assert main(["check", str(tmp_path / "m.onnx")]) == 3
    printed = capsys.readouterr()
    assert "0 of 0" not in printed.out
    assert printed.err.splitlines()[-1] == "ep-nnapi: onnxruntime: there is no such graph"
