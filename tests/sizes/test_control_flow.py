"""Control flow that constants and static shapes decide: the results stay those of the model."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from ep_nnapi.sessions.cpu import CPU, session_of
from ep_nnapi.sizes.control_flow import MOST_NODES, decide_control_flow
from tests.onnx_graph import parsed

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def decided(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Counter[str]:
    """The node types after it; the model is valid and computes what it did."""
    want = session_of(model.SerializeToString(), providers=[CPU]).run(None, dict(feeds))
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    decide_control_flow(changed)
    onnx.checker.check_model(changed, full_check=True)
    got = session_of(changed.SerializeToString(), providers=[CPU]).run(None, dict(feeds))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    return Counter(node.op_type for node in changed.graph.node)


def branch(name: str, text: str, outputs: str = "r") -> str:
    ends = ", ".join(f"float[2,3] {o}" for o in outputs.split())
    return f"{name} () => ({ends}) {{ {text} }}"


def conditional(condition: str, **constants: object) -> onnx.ModelProto:
    """Two Ifs on `c`, whose branches have values of the same names, and one within a branch."""

    def either(output: str, then: str, other: str, result: str = "r") -> str:
        branches = branch("a", then, result), branch("b", other, result)
        return f"{output} = If (c) <then_branch = {branches[0]}, else_branch = {branches[1]}>"

    inner = either("r", "q = Neg (t)", "q = Exp (t)", "q")
    first = either("y", f"t = Abs (x) {inner}", "r = Exp (x)")
    second = either("z", "t = Sqrt (y) r = Neg (t)", "t = Abs (y) r = Neg (t)")
    text = f"(float[2,3] x) => (float[2,3] y, float[2,3] z) {{ {condition} {first} {second} }}"
    return parsed(text, **constants)


@pytest.mark.parametrize(("taken", "types"), [(True, "Abs Neg Sqrt Neg"), (False, "Exp Abs Neg")])
def test_a_constant_decides_branches_and_those_inside(taken: bool, types: str) -> None:
    found = decided(conditional("", c=np.array(taken)), {"x": X})
    assert found - Counter(("Identity",) * 9) == Counter(types.split())


@pytest.mark.parametrize("rank", [2, 3])
def test_shapes_decide(rank: int) -> None:
    """Of what Reshape makes, whose target follows from another shape."""
    condition = """sizes = Shape (x) rows = Gather (sizes, zero) to = Concat <axis = 0> (rows, left)
        flat = Reshape (x, to) ranks = Shape (flat) n = Size (ranks) c = Equal (n, wanted)"""
    ints = {"zero": [0], "left": [-1], "wanted": np.array(rank)}
    found = decided(conditional(condition, **ints), {"x": X})
    assert found["If"] == 0
    assert found["Exp"] == (rank == 3)


def test_what_an_input_decides_stays() -> None:
    text = f"""(float[2,3] x, bool c) => (float[2,3] y) {{
        y = If (c) <
            then_branch = {branch("a", "r = Abs (x)")}, else_branch = {branch("b", "r = Neg (x)")}
        >
    }}"""
    assert decided(parsed(text), {"x": X, "c": np.array(True)}) == Counter(If=1)


def test_a_branch_that_computes_nothing_and_one_result_twice() -> None:
    then = branch("a", "r = Identity (k) s = Identity (k)", "r s")
    other = branch("b", "r = Abs (x) s = Neg (x)", "r s")
    text = f"""(float[2,3] x) => (float[2,3] y, float[2,3] z) {{
        y, z = If (c) <then_branch = {then}, else_branch = {other}>
    }}"""
    found = decided(parsed(text, c=np.array(True), k=X + 1), {"x": X})
    assert {*found} == {"Identity"}


def loop(
    trips: object = 3, again: str = "more = Identity (go)", opset: int = 17
) -> onnx.ModelProto:
    """y = x after some steps, rows: each of them; a weight of the body is used in all."""
    body = f"""body (int64 i, bool go, float[2,3] h) => (bool more, float[2,3] next, float[2,3] row)
        <float[1] w = {{0.5}}> {{
        {again} at = Cast <to = 1> (i) scaled = Mul (h, w) next = Add (scaled, at) row = Neg (next)
    }}"""
    text = f"""(float[2,3] x) => (float[2,3] y, float[n,2,3] rows) {{
        y, rows = Loop (trips, , x) <body = {body}>
    }}"""
    return parsed(text, opset, trips=np.array(trips, np.int64))


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("trips", [1, 3])
def test_a_known_number_of_iterations_is_unrolled(trips: int, opset: int) -> None:
    found = decided(loop(trips, opset=opset), {"x": X})
    assert (found["Loop"], found["Add"], found["Unsqueeze"]) == (0, trips, trips)


OWN = "sum = ReduceSum <keepdims = 0> (h) number = Cast <to = 1> (i) more = Less (number, sum)"


@pytest.mark.parametrize("model", [loop(0), loop(again=OWN)], ids=["a list of no rows", "its own"])
def test_other_loops_stay(model: onnx.ModelProto) -> None:
    """The shape of a list without rows is unknown; a condition that a run decides is no number."""
    assert decided(model, {"x": X})["Loop"] == 1


def test_loops_are_unrolled_up_to_a_number_of_nodes() -> None:
    nodes = len(loop().graph.node[0].attribute[0].g.node)
    assert decided(loop(MOST_NODES // nodes), {"x": X})["Loop"] == 0
    assert decided(loop(MOST_NODES // nodes + 1), {"x": X})["Loop"] == 1


def test_a_loop_without_lists_may_have_no_iterations() -> None:
    body = "body (int64 i, bool go, float[2,3] h) => (bool go, float[2,3] n) { n = Neg (h) }"
    text = f"(float[2,3] x) => (float[2,3] y) {{ y = Loop (trips, go, x) <body = {body}> }}"
    for trips, go in ((0, True), (-1, True), (5, False)):
        model = parsed(text, trips=np.array(trips, np.int64), go=np.array(go))
        assert decided(model, {"x": X}) == Counter(Identity=1)
