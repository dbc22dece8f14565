"""INT64 values whose numbers fit into INT32, and operators on them."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto

import ep_nnapi
from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes.int64_ranges import (
    mark_int32_ranges,
    narrow_to_int32,
    suppose_ranges,
    values_fitting_int32,
)
from tests.end_to_end.quantized import model
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import graph_of, nodes_of

REAL, WIDE = TensorProto.FLOAT, TensorProto.INT64
PICTURE = {"x": (REAL, (1, 4, 6, 6))}
MATRIX = {"x": (REAL, (4, 6))}
BEST = "a = ArgMax <axis = 1> (x)"  # from 0, below the longest dimension
SUM = f"{BEST} y = Add (a, c)"
LARGEST = 2**31 - 1


def integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def fits(text: str, inputs=PICTURE, **constants: np.ndarray) -> bool:
    """True if the elements of the last node's output are known to fit INT32."""
    last = nodes_of(text)[-1].output[0]
    graph = mark_int32_ranges(graph_of(model(text, inputs, {last: WIDE}, constants)))
    (output,) = (o for n in graph.nodes for o in n.outputs if o is not None and o.name == last)
    return output.fits_int32


@pytest.mark.parametrize(
    ("op_type", "at_the_limit", "past_it"),
    [
        ("Add", LARGEST - 5, LARGEST - 4),
        ("Sub", LARGEST + 1, LARGEST + 2),
        ("Mul", LARGEST // 5, LARGEST // 5 + 1),
    ],
)
def test_sums_and_products_fit_up_to_the_limit(
    op_type: str, at_the_limit: int, past_it: int
) -> None:
    text = f"{BEST} y = {op_type} (a, c)"
    assert fits(text, c=integers(at_the_limit))
    assert not fits(text, c=integers(past_it))


def test_a_users_own_integers_are_not_known_to_fit() -> None:
    own = {"a": (WIDE, (3,))}
    assert not fits("y = Identity (a)", inputs=own)
    assert not fits("y = Add (a, c)", inputs=own, c=integers(1))
    assert not fits("y = Cast <to = 7> (x)")  # as large as any float


def test_integers_in_a_stated_range_are_known_to_fit() -> None:
    ends = {"a": (WIDE, (3,))}, {"y": WIDE}
    graph = graph_of(model("y = Add (a, c)", *ends, {"c": integers(1)}))
    assert values_fitting_int32(graph, {}) == {"c"}
    assert values_fitting_int32(graph, {"a": (0, LARGEST - 1)}) == {"a", "c", "y"}
    assert values_fitting_int32(graph, {"a": (0, LARGEST)}) == {"a", "c"}


@pytest.mark.parametrize(("number", "known"), [(LARGEST, True), (LARGEST + 1, False)])
def test_tensors_of_one_number_fit_if_it_does(number: int, known: bool) -> None:
    text = f"s = Shape (x) y = ConstantOfShape <value = int64[1] {{{number}}}> (s)"
    assert fits(text) == known


def test_a_diagonal_has_zeros_and_ones() -> None:
    assert fits("e = EyeLike <dtype = 7> (x) y = Add (e, c)", MATRIX, c=integers(LARGEST - 1))
    assert not fits("e = EyeLike <dtype = 7> (x) y = Add (e, c)", MATRIX, c=integers(LARGEST))


def test_bytes_and_truths_fit_when_they_are_made_wide() -> None:
    for kind in (TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT32):
        assert fits("y = Cast <to = 7> (b)", inputs={"b": (kind, (3,))})
    assert not fits("y = Cast <to = 7> (b)", inputs={"b": (TensorProto.UINT32, (3,))})


def test_a_node_is_narrowed_when_all_of_it_fits() -> None:
    """The sum of two indices is; with a number that is too large it stays, to be refused."""
    for number, kind in [(1, DType.INT32), (LARGEST, DType.INT64)]:
        graph = graph_of(model(SUM, PICTURE, {"y": WIDE}, {"c": integers(number)}))
        added = narrow_to_int32(mark_int32_ranges(graph).nodes[1])
        assert {v.dtype for v in (*added.inputs, *added.outputs) if v is not None} == {kind}


COUNT = {"k": integers(3)}
TABLE = np.arange(12, dtype=np.float32).reshape(6, 2)
TAKEN = {
    "made real": (f"{BEST} y = Cast <to = 1> (a)", REAL, {}),
    "given an axis": (f"{BEST} y = Unsqueeze (a, c)", WIDE, {"c": integers(0)}),
    "added to": (SUM, WIDE, {"c": integers(1)}),
    "joined": (f"{BEST} y = Concat <axis = 1> (a, a)", WIDE, {}),
    "clipped": (f"{BEST} y = Clip (a, low, most)", WIDE, {"low": np.array(1), "most": np.array(3)}),
    "compared": (f"{BEST} b = Equal (a, c) y = Cast <to = 1> (b)", REAL, {"c": integers(2)}),
    "divided": ("v, a = TopK (x, k) y = Div (a, c)", WIDE, {"c": integers(-2)}),
    "rest of a division": ("v, a = TopK (x, k) y = Mod (a, c)", WIDE, {"c": integers(2)}),
    "looked up after a sum": (
        f"{BEST} b = Add (a, c) y = Gather (t, b)",
        REAL,
        {"c": integers(2), "t": TABLE},
    ),
    "chosen": (f"{BEST} b = Greater (a, c) y = Where (b, a, c)", WIDE, {"c": integers(1)}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_operators_on_indices_are_taken_and_match(name: str) -> None:
    text, kind, constants = TAKEN[name]
    built = model(text, PICTURE, {"y": kind}, COUNT | constants).SerializeToString()
    report = ep_nnapi.check(built)
    assert not report.rejections
    options = ort.SessionOptions()
    ep_nnapi.append_execution_provider(options)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float32)}
    (got,) = ort.InferenceSession(built, options).run(None, feeds)
    (want,) = session_of(built).run(None, feeds)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_what_may_exceed_32_bits_is_refused() -> None:
    built = model(SUM, PICTURE, {"y": WIDE}, {"c": integers(LARGEST)})
    (refused,) = ep_nnapi.check(built.SerializeToString()).rejections
    assert (refused.op_type, refused.reason) == ("Add", "DTYPE")


def test_sizes_that_are_symbolic_are_known_when_they_are_bound() -> None:
    """An index along any dimension plus 1 may not fit; along one of the run's sizes it does."""
    dynamic = {"x": (REAL, (1, "channels", 6, 6))}
    built = model(SUM, dynamic, {"y": WIDE}, {"c": integers(1)}).SerializeToString()
    report = ep_nnapi.check(built)
    assert (report.taken, len(report.clusters)) == (2, 1)
    ours = nnapi_session(built)
    theirs = session_of(built)
    for channels in (3, 5):
        x = np.random.default_rng(channels).standard_normal((1, channels, 6, 6))
        feeds = {"x": x.astype(np.float32)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])


# Numbers that inputs are supposed to have, which each run checks

# as OPT has them, after one of padding; and what is added to its attention
POSITIONS = """counts = CumSum (mask, axis) seen = Mul (counts, mask) positions = Add (seen, one)
    first = Slice (mask, zero, one, one) p = Concat <axis = 1> (first, positions)
    found = Gather (table, p) words = Gather (table, ids) kept = Cast <to = 9> (mask)
    bias = Where (kept, high, low) column = Unsqueeze (bias, two) masked = Mul (words, column)
    y = Concat <axis = 1> (found, masked)"""
OF_POSITIONS = {
    **{"zero": integers(0), "one": integers(1), "two": integers(2), "axis": np.array(1)},
    **{"table": np.arange(300, dtype=np.float32).reshape(100, 3)},
    **{"high": np.float32(1), "low": np.float32(-9)},
}


@pytest.mark.parametrize("length", [6, "length"])
def test_positions_and_masks_are_one_cluster(length: int | str) -> None:
    inputs = dict.fromkeys(("mask", "ids"), (WIDE, (1, length)))
    built = model(POSITIONS, inputs, {"y": REAL}, OF_POSITIONS).SerializeToString()
    ours, theirs = nnapi_session(built), session_of(built)
    ids = integers(5, -1, 7, 99, 0, 1)[None]
    for mask in ((1, 1, 1, 1, 0, 0), (1, -1, 1, -1, 1, 0), (0, 0, 1, 1, 1, 1)):
        feeds = {"mask": integers(*mask)[None], "ids": ids}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (len(cluster["nodes"]), cluster["device_runs"]) == (12, 3)


@pytest.mark.parametrize("length", [3, "length"])
def test_runs_with_larger_numbers_are_the_cpu_providers(length: int | str) -> None:
    """2^33 + 1 would be 1 in 32 bits; the receipt says why another provider has the run."""
    text, constants = "b = Add (a, c) s = Mul (b, b) y = Div (s, d)", {"c": integers(1)}
    constants["d"] = integers(3)
    built = model(text, {"a": (WIDE, (length,))}, {"y": WIDE}, constants).SerializeToString()
    ours, theirs = nnapi_session(built, severity=4), session_of(built)
    for numbers in ((3, 4, -5), (1, 1 << 33, 2), (1, -(1 << 15), 2), (1, -(1 << 15) - 1, 2)):
        a = integers(*numbers)
        np.testing.assert_array_equal(ours.run(None, {"a": a})[0], theirs.run(None, {"a": a})[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], len(cluster["nodes"])) == (2, 3)
    (fallback,) = cluster["fallbacks"]
    assert (fallback["to"], fallback["runs"]) == ("cpu", 2)
    assert "numbers for which arithmetic may exceed INT32" in fallback["reason"]


def test_numbers_that_only_tried_sizes_bound_are_checked_in_runs() -> None:
    """The elements of x are counted by the CPU provider, at most 2^24 of them for the cluster."""
    text = """sizes = Shape (x) count = ReduceProd <keepdims = 0> (sizes) n = Expand (count, three)
    sums = CumSum (n, zero) row = Reshape (sums, line)
    wide = Cast <to = 1> (row) y = Add (x, wide)"""
    constants = {"three": integers(3), "line": integers(1, 3), "zero": np.array(0)}
    built = model(text, {"x": (REAL, ("rows", 3))}, {"y": REAL}, constants).SerializeToString()
    ours, theirs = nnapi_session(built, severity=4, exclude="CumSum"), session_of(built)
    for rows in (2, 5, 1):
        feeds = {"x": np.ones((rows, 3), np.float32)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], len(cluster["nodes"])) == (3, 3)


def test_files_suppose_no_numbers() -> None:
    """Nothing checks the runs of what ONNX Runtime compiles, so it is what all numbers allow."""
    text = "wide = Cast <to = 1> (a) y = Mul (wide, wide)"
    built = model(text, {"a": (WIDE, (3,))}, {"y": REAL}, {}).SerializeToString()
    chosen = ort.SessionOptions()
    ep_nnapi.append_execution_provider(chosen)
    compiler = ort.ModelCompiler(chosen, built, embed_compiled_data_into_model=True)
    compiled = compiler.compile_to_bytes()
    made = onnx.load_from_string(compiled)
    assert {n.op_type for n in made.graph.node} == {"Cast", "EPContext"}
    feeds = {"a": integers(3, (1 << 33) + 1, -(1 << 40))}
    theirs = session_of(built).run(None, feeds)[0]
    np.testing.assert_array_equal(nnapi_session(compiled).run(None, feeds)[0], theirs)


def test_that_sums_may_wrap_is_no_condition_on_sizes() -> None:
    """128 numbers of up to 2^24 each may; what is computed is the same for fewer."""
    text = """narrow = Cast <to = 6> (mask) counts = CumSum (narrow, axis)
        wide = Unsqueeze (counts, one) column = Unsqueeze (mask, one)
        shown = Cast <to = 6> (column) y = Add (wide, shown)"""
    inputs, constants = {"mask": (WIDE, ("batch", "tokens"))}, {"one": integers(1)}
    constants["axis"] = np.array(1)
    built = model(text, inputs, {"y": TensorProto.INT32}, constants).SerializeToString()
    ours, theirs = nnapi_session(built), session_of(built)
    for tokens in (200, 5):
        feeds = {"mask": np.ones((1, tokens), np.int64)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (2, 1)


def limits_of(text: str, **constants: np.ndarray) -> dict[str, int]:
    """The limits that the model's inputs `a` and `b` are supposed to have."""
    inputs = dict.fromkeys("ab", (WIDE, (1, 7)))
    graph = graph_of(model(text, inputs, {"y": WIDE}, constants))
    made = suppose_ranges(replace(graph, key=""))
    values = (v for n in made.nodes for v in n.inputs if v is not None)
    return {v.name: v.limit for v in values if v.name in inputs}


def test_constants_are_read_for_a_range_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an addition are; the weights of a product, whose results have none, are not."""
    read = []
    array = Constant.array.fget
    monkeypatch.setattr(Constant, "array", property(lambda c: read.append(c.shape) or array(c)))
    weights = {"w": np.ones((3, 5), np.uint8), "c": integers(1, 2)}
    text = "y = MatMulInteger (x, w) t = Add (a, c)"
    inputs = {"x": (TensorProto.UINT8, (2, 3)), "a": (WIDE, (2,))}
    graph = graph_of(model(text, inputs, {"y": TensorProto.INT32, "t": WIDE}, weights))
    assert {n.op_type for n in graph.nodes} == {"MatMulInteger", "Add"}
    mark_int32_ranges(graph)
    assert set(read) == {(2,)}


def test_limits_are_no_lower_than_arithmetic_needs() -> None:
    one = {"c": integers(1)}
    assert limits_of("y = Add (a, b)") == {"a": 1 << 24, "b": 1 << 24}
    assert limits_of("y = Mul (a, b)") == {"a": 1, "b": 1 << 24}
    assert limits_of("s = Add (a, c) y = Mul (s, s)", **one) == {"a": 1 << 15}
    assert limits_of("s = Mul (a, a) t = Mul (s, s) y = Mul (t, s)") == {"a": 1}


def test_indexes_and_what_fits_anyway_need_no_limit() -> None:
    assert limits_of("y = Gather (t, a)", t=np.arange(6)) == {"a": 0}
    assert limits_of("s = Shape (a) y = Add (s, s)") == {"a": 0}


@pytest.mark.parametrize(("dims", "known"), [(("b", "n"), True), ((2**16, 2**16), False)])
def test_sums_of_truth_values_over_unknown_sizes_fit(dims: tuple[int | str, ...], known: bool):
    """A tensor has no more elements than Size may return; of known sizes they are counted."""
    given = {"x": (TensorProto.BOOL, dims)}
    cast, total = "c = Cast <to = 7> (x)", "s = ReduceSum <keepdims = 0>"
    assert fits(f"{cast} {total} (c)", inputs=given) is known
    assert not fits(f"{cast} d = Add (c, c) {total} (d)", inputs=given)
