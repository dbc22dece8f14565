"""Bodies of If, Loop and Scan and local functions are planned and run like the main graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.sessions.cpu import quiet_options, session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import parsed
from tests.ort.conftest import Install, start
from tests.ort.models import finish, graph, model, node, tensor

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def branch(constant: float, name: str) -> onnx.GraphProto:
    """|x| + constant: the two branches differ in the constant only, all names are the same."""
    nodes = [node("Abs", "x", "a"), node("Add", "a k", "r")]
    constants = {"k": np.array([constant], np.float32)}
    return graph(nodes, [], [tensor("r")], constants, name=name)


def conditional() -> bytes:
    nodes = [
        node("Relu", "x0", "x", name="first"),
        node("If", "c", "y", name="if", then_branch=branch(5, "b"), else_branch=branch(7, "b")),
    ]
    return model(nodes, [tensor("x0"), tensor("c", (), bool)], [tensor("y")])


def test_branches_of_equal_names_keep_their_own_clusters(install: Install):
    fake = install("Abs", "Add", "Relu", together=True)
    session = start(conditional())
    for condition, constant in [(True, 5), (False, 7)]:
        y = session.run(None, {"x0": X, "c": np.array(condition)})[0]
        np.testing.assert_array_equal(y, np.maximum(X, 0) + constant)
    assert len(fake.runners) == 3
    assert {runner.names for runner in fake.runners} == {(("x",), ("r",)), (("x0",), ("x",))}


def test_inner_graphs_are_keyed_by_holder_and_attribute(install: Install):
    fake = install()
    names = [("then_branch", "t"), ("else_branch", "e")]
    bodies = {attribute: branch(1, name) for attribute, name in names}
    nodes = [node("Relu", "x0", "x"), node("If", "c", "y", **bodies)]
    start(model(nodes, [tensor("x0"), tensor("c", (), bool)], [tensor("y")]))
    assert sorted(g.key for g in fake.graphs) == ["", "y.else_branch", "y.then_branch"]
    (main,) = [g for g in fake.graphs if g.key == ""]
    assert [n.implicit for n in main.nodes] == [(), ("x",)]


def test_a_loop_of_an_ort_file_reads_weights_outside_its_body(tmp_path: Path) -> None:
    """They stay for the loop, although the cluster of its body has copies."""
    text = """(float[2,4] x, int64 n, bool go) => (float[2,4] y) <float[4,4] w> {
        y = Loop <body = b (int64 i, bool c, float[2,4] s) => (bool d, float[2,4] r) {
            m = MatMul (s, w) r = Tanh (m) d = Identity (c) }> (n, go, x) }"""
    weights = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    content = parsed(text, w=weights).SerializeToString()
    options = quiet_options()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    feeds = {"x": np.ones((2, 4), np.float32), "n": np.array(3), "go": np.array(True)}
    (want,) = session_of(content, options).run(None, feeds)
    for model_ in (tmp_path / "model.ort", (tmp_path / "model.ort").read_bytes(), content):
        session = nnapi_session(model_, partitioning="maximal")
        (got,) = session.run(None, feeds)
        np.testing.assert_allclose(got, want, 1e-6)
        assert ep_nnapi.receipts()[-1]["clusters"][0]["device_runs"] == 3


def test_outer_constants_are_constant_inside(install: Install):
    fake = install("Add")
    inner = graph([node("Add", "x w", "r")], [], [tensor("r")], name="t")
    other = graph([node("Add", "x x", "r")], [], [tensor("r")], name="e")
    nodes = [node("If", "c", "y", then_branch=inner, else_branch=other), node("Mul", "y w", "z")]
    w = np.full((2, 3), 3, np.float32)
    inputs = [tensor("x"), tensor("c", (), bool)]
    session = start(model(nodes, inputs, [tensor("z")], {"w": w}))
    z = session.run(None, {"x": X, "c": np.array(True)})[0]
    np.testing.assert_array_equal(z, (X + w) * w)
    assert (("x",), ("r",)) in [runner.names for runner in fake.runners]


def test_loop_bodies_run_every_iteration(install: Install):
    fake = install("Add", "Abs", together=True)
    body = graph(
        [node("Abs", "v", "a"), node("Add", "a x", "v2"), node("Identity", "go", "go2")],
        [tensor("i", (), np.int64), tensor("go", (), bool), tensor("v")],
        [tensor("go2", (), bool), tensor("v2")],
    )
    nodes = [node("Loop", "n - x", "y", name="loop", body=body)]
    session = start(model(nodes, [tensor("n", (), np.int64), tensor("x")], [tensor("y")]))
    expected = X
    for _ in range(4):
        expected = np.abs(expected) + X
    y = session.run(None, {"n": np.array(4), "x": X})[0]
    np.testing.assert_array_equal(y, expected)
    assert [g.key for g in fake.graphs] == ["loop.body", ""]


def test_scan_bodies_run(install: Install):
    install("Add")
    body = graph(
        [node("Add", "s e", "s2"), node("Identity", "s2", "o")],
        [tensor("s", (3,)), tensor("e", (3,))],
        [tensor("s2", (3,)), tensor("o", (3,))],
    )
    nodes = [node("Scan", "s0 x", "sn y", body=body, num_scan_inputs=1)]
    inputs, outputs = [tensor("s0", (3,)), tensor("x")], [tensor("sn", (3,)), tensor("y")]
    session = start(model(nodes, inputs, outputs))
    total, rows = session.run(None, {"s0": np.zeros(3, np.float32), "x": X})
    np.testing.assert_array_equal(rows, np.cumsum(X, 0))
    np.testing.assert_array_equal(total, X.sum(0))


def test_the_body_of_a_function_is_planned_after_inlining(install: Install):
    """SequenceMap becomes a Loop with its body inside; what was taken before would be lost."""
    fake = install("Abs", "Add")
    body = graph([node("Abs", "a", "b"), node("Add", "b a", "c")], [tensor("a")], [tensor("c")])
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("SequenceMap", "s", "t", body=body),
        node("SequenceAt", "t one", "y"),
    ]
    one = np.array(1, np.int64)
    session = start(model(nodes, [tensor("x")], [tensor("y")], {"one": one}))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X) + X)
    assert len(fake.runners) == 2
    assert not any("SequenceMap" in (n.op_type for n in g.nodes) for g in fake.graphs[-1:])


def test_nested_inner_graphs(install: Install):
    install("Abs", "Add")
    inner = node("If", "c", "r", name="in", then_branch=branch(5, "a"), else_branch=branch(7, "b"))
    inner.output[0] = "q"
    then = graph([inner, node("Abs", "q", "r")], [], [tensor("r")], name="t")
    nodes = [
        node("Relu", "x0", "x"),
        node("If", "c", "y", name="out", then_branch=then, else_branch=branch(9, "e")),
    ]
    session = start(model(nodes, [tensor("x0"), tensor("c", (), bool)], [tensor("y")]))
    y = session.run(None, {"x0": X, "c": np.array(True)})[0]
    np.testing.assert_array_equal(y, np.maximum(X, 0) + 5)


def test_holders_of_equal_names_get_keys_of_their_own(install: Install):
    """If `in` stands in both branches of If `out`: ONNX Runtime shows only the nearest holder."""
    fake = install("Abs", "Add")

    def holding(constant: float, name: str) -> onnx.GraphProto:
        bodies = {"then_branch": branch(constant, "t"), "else_branch": branch(0, "e")}
        return graph([node("If", "c", "r", name="in", **bodies)], [], [tensor("r")], name=name)

    branches = {"then_branch": holding(5, "a"), "else_branch": holding(7, "b")}
    nodes = [node("Relu", "x0", "x"), node("If", "d", "y", name="out", **branches)]
    inputs = [tensor("x0"), tensor("c", (), bool), tensor("d", (), bool)]
    session = start(model(nodes, inputs, [tensor("y")]))
    assert len({g.key for g in fake.graphs}) == len(fake.graphs) == 7
    for outer, inner, constant in [(1, 1, 5), (0, 1, 7), (0, 0, 0)]:
        feeds = {"x0": X, "c": np.array(inner, bool), "d": np.array(outer, bool)}
        y = session.run(None, feeds)[0]
        np.testing.assert_array_equal(y, np.maximum(X, 0) + constant)


@pytest.mark.parametrize("together", [False, True])
def test_local_functions_are_planned_after_inlining(install: Install, together: bool):
    fake = install("Abs", "Add", together=together)
    imports = [helper.make_opsetid("", 17)]
    body = [node("Abs", "p", "a"), node("Add", "a p", "q")]
    function = helper.make_function("local", "AbsAdd", ["p"], ["q"], body, imports)
    calls = [node("AbsAdd", "x", "m", domain="local"), node("AbsAdd", "m", "y", domain="local")]
    main = graph(calls, [tensor("x")], [tensor("y")])
    session = start(finish(main, functions=[function]))
    middle = np.abs(X) + X
    y = session.run(None, {"x": X})[0]
    np.testing.assert_array_equal(y, np.abs(middle) + middle)
    assert len(fake.runners) == (1 if together else 4)
    assert [n.op_type for n in fake.graphs[-1].nodes] == ["Abs", "Add"] * 2


def test_subgraphs_shown_before_a_pass_are_counted_once() -> None:
    """Softmax is a function too: ONNX Runtime asks about its graph when it inlines functions."""
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2,4] x, bool c) => (float[2,4] y) { m = my.Gate (x, c) y = my.Gate (m, c) }
        <domain: "my", opset_import: ["" : 17]> Gate (x, c) => (y) {
            y = If (c) <
                then_branch = t () => (float[2,4] a) { a = Relu (x) },
                else_branch = e () => (float[2,4] b) { n = Neg (x) b = Softmax (n) }>
        }"""
    report = ep_nnapi.check(onnx.parser.parse_model(text).SerializeToString())
    assert (report.nodes, report.taken) == (8, 6)
    assert sorted(g.key for g in report.graphs) == ["", *BRANCHES]


BRANCHES = [f"{name}.{branch}_branch" for name in "my" for branch in ("else", "then")]
