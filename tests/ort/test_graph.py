"""Bodies of If, Loop and Scan and local functions are planned and run like the main graph."""

from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import quiet_options, session_of
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import serialized
from tests.ort.conftest import Install, start

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def branch(name: str, constant: float) -> str:
    """|x| + constant: the two branches differ in the constant only, all names are the same."""
    head = f"{name} () => (float[2,3] r) <float[1] k = {{{constant:.1f}}}>"
    return f"{head} {{ a = Abs (x) r = Add (a, k) }}"


def either(then: str, other: str, condition: str = "c") -> str:
    return f"If ({condition}) <then_branch = {then}, else_branch = {other}>"


def model(nodes: str, ends: str = "bool c", **constants: object) -> bytes:
    """From x0 or x and others to y."""
    x = "x0" if "x0" in nodes else "x"
    text = f"(float[2,3] {x}, {ends}) => (float[2,3] y) {{ {nodes} }}"
    return serialized(text, **constants)


def test_branches_of_equal_names_keep_their_own_clusters(install: Install):
    fake = install("Abs", "Add", "Relu", together=True)
    branches = either(branch("b", 5), branch("b", 7))
    session = start(model(f"[first] x = Relu (x0) [if] y = {branches}"))
    for condition, constant in [(True, 5), (False, 7)]:
        y = session.run(None, {"x0": X, "c": np.array(condition)})[0]
        np.testing.assert_array_equal(y, np.maximum(X, 0) + constant)
    assert len(fake.runners) == 3
    assert {runner.names for runner in fake.runners} == {(("x",), ("r",)), (("x0",), ("x",))}


def test_inner_graphs_are_keyed_by_holder_and_attribute(install: Install):
    fake = install()
    start(model(f"x = Relu (x0) y = {either(branch('t', 1), branch('e', 1))}"))
    assert sorted(g.key for g in fake.graphs) == ["", "y.else_branch", "y.then_branch"]
    (main,) = [g for g in fake.graphs if g.key == ""]
    assert [n.implicit for n in main.nodes] == [(), ("x",)]


def test_a_loop_of_an_ort_file_reads_weights_outside_its_body(tmp_path: Path) -> None:
    """They stay for the loop, although the cluster of its body has copies."""
    text = """(float[2,4] x, int64 n, bool go) => (float[2,4] y) <float[4,4] w> {
        y = Loop <body = b (int64 i, bool c, float[2,4] s) => (bool d, float[2,4] r) {
            m = MatMul (s, w) r = Tanh (m) d = Identity (c) }> (n, go, x) }"""
    weights = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    content = serialized(text, w=weights)
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
    then, other = (f"{b} () => (float[2,3] r) {{ r = Add (x, {b}) }}" for b in "wx")
    w = np.full((2, 3), 3, np.float32)
    session = start(model(f"z = {either(then, other)} y = Mul (z, w)", w=w))
    y = session.run(None, {"x": X, "c": np.array(True)})[0]
    np.testing.assert_array_equal(y, (X + w) * w)
    assert (("x",), ("r",)) in [runner.names for runner in fake.runners]


def test_loop_bodies_run_every_iteration(install: Install):
    fake = install("Add", "Abs", together=True)
    body = """b (int64 i, bool go, float[2,3] v) => (bool go2, float[2,3] v2) {
        a = Abs (v) v2 = Add (a, x) go2 = Identity (go) }"""
    session = start(model(f"[loop] y = Loop <body = {body}> (n, , x)", "int64 n"))
    expected = X
    for _ in range(4):
        expected = np.abs(expected) + X
    y = session.run(None, {"n": np.array(4), "x": X})[0]
    np.testing.assert_array_equal(y, expected)
    assert [g.key for g in fake.graphs] == ["loop.body", ""]


def test_scan_bodies_run(install: Install):
    install("Add")
    text = """(float[3] s0, float[2,3] x) => (float[3] sn, float[2,3] y) {
        sn, y = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] e)
            => (float[3] s2, float[3] o) { s2 = Add (s, e) o = Identity (s2) }> (s0, x) }"""
    session = start(serialized(text))
    total, rows = session.run(None, {"s0": np.zeros(3, np.float32), "x": X})
    np.testing.assert_array_equal(rows, np.cumsum(X, 0))
    np.testing.assert_array_equal(total, X.sum(0))


def test_the_body_of_a_function_is_planned_after_inlining(install: Install):
    """SequenceMap becomes a Loop with its body inside; what was taken before would be lost."""
    fake = install("Abs", "Add")
    text = """(float[2,3] x) => (float[2,3] y) { s = SequenceConstruct (x, x)
        t = SequenceMap <body = m (float[2,3] a) => (float[2,3] c) {
            b = Abs (a) c = Add (b, a) }> (s) y = SequenceAt (t, one) }"""
    session = start(serialized(text, one=np.array(1)))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X) + X)
    assert len(fake.runners) == 2
    assert not any("SequenceMap" in (n.op_type for n in g.nodes) for g in fake.graphs[-1:])


def test_nested_inner_graphs(install: Install):
    install("Abs", "Add")
    inner = either(branch("a", 5), branch("b", 7))
    then = f"t () => (float[2,3] r) {{ [in] q = {inner} r = Abs (q) }}"
    session = start(model(f"x = Relu (x0) [out] y = {either(then, branch('e', 9))}"))
    y = session.run(None, {"x0": X, "c": np.array(True)})[0]
    np.testing.assert_array_equal(y, np.maximum(X, 0) + 5)


def test_holders_of_equal_names_get_keys_of_their_own(install: Install):
    """If `in` stands in both branches of If `out`: ONNX Runtime shows only the nearest holder."""
    fake = install("Abs", "Add")

    inner = (either(branch("t", constant), branch("e", 0)) for constant in (5, 7))
    then, other = (f"b () => (float[2,3] r) {{ [in] r = {i} }}" for i in inner)
    nodes = f"x = Relu (x0) [out] y = {either(then, other, 'd')}"
    session = start(model(nodes, "bool c, bool d"))
    assert len({g.key for g in fake.graphs}) == len(fake.graphs) == 7
    for outer, inner, constant in [(1, 1, 5), (0, 1, 7), (0, 0, 0)]:
        feeds = {"x0": X, "c": np.array(inner, bool), "d": np.array(outer, bool)}
        y = session.run(None, feeds)[0]
        np.testing.assert_array_equal(y, np.maximum(X, 0) + constant)


@pytest.mark.parametrize("together", [False, True])
def test_local_functions_are_planned_after_inlining(install: Install, together: bool):
    fake = install("Abs", "Add", together=together)
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        g (float[2,3] x) => (float[2,3] y) { m = my.AbsAdd (x) y = my.AbsAdd (m) }
        <domain: "my", opset_import: ["" : 17]> AbsAdd (p) => (q) { a = Abs (p) q = Add (a, p) }"""
    session = start(onnx.parser.parse_model(text).SerializeToString())
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
