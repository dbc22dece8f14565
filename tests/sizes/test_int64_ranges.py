"""INT64 values whose numbers fit into INT32, and operators on them."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto

import ep_nnapi
from ep_nnapi.graph.value import DType
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes.int64_ranges import (
    mark_int32_ranges,
    narrow_to_int32,
    suppose_ranges,
    values_fitting_int32,
)
from tests.end_to_end.quantized import model, node
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import graph_of

REAL, WIDE = TensorProto.FLOAT, TensorProto.INT64
PICTURE = {"x": (REAL, (1, 4, 6, 6))}
BEST = node("ArgMax", "x", "a", axis=1)  # from 0, below the longest dimension
LARGEST = 2**31 - 1


def integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def fits(*nodes: onnx.NodeProto, inputs=PICTURE, **constants: np.ndarray) -> bool:
    """True if the elements of the last node's output are known to fit INT32."""
    last = nodes[-1].output[0]
    graph = mark_int32_ranges(graph_of(model(nodes, inputs, {last: WIDE}, constants)))
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
    step = node(op_type, "a c", "y")
    assert fits(BEST, step, c=integers(at_the_limit))
    assert not fits(BEST, step, c=integers(past_it))


def test_a_users_own_integers_are_not_known_to_fit() -> None:
    own = {"a": (WIDE, (3,))}
    assert not fits(node("Identity", "a", "y"), inputs=own)
    assert not fits(node("Add", "a c", "y"), inputs=own, c=integers(1))
    assert not fits(node("Cast", "x", "y", to=WIDE))  # as large as any float


def test_integers_in_a_stated_range_are_known_to_fit() -> None:
    nodes = [node("Add", "a c", "y")]
    graph = graph_of(model(nodes, {"a": (WIDE, (3,))}, {"y": WIDE}, {"c": integers(1)}))
    assert values_fitting_int32(graph, {}) == {"c"}
    assert values_fitting_int32(graph, {"a": (0, LARGEST - 1)}) == {"a", "c", "y"}
    assert values_fitting_int32(graph, {"a": (0, LARGEST)}) == {"a", "c"}


def test_bytes_and_truths_fit_when_they_are_made_wide() -> None:
    for kind in (TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT32):
        assert fits(node("Cast", "b", "y", to=WIDE), inputs={"b": (kind, (3,))})
    assert not fits(node("Cast", "b", "y", to=WIDE), inputs={"b": (TensorProto.UINT32, (3,))})


def test_a_node_is_narrowed_when_all_of_it_fits() -> None:
    """The sum of two indices is; with a number that is too large it stays, to be refused."""
    for number, kind in [(1, DType.INT32), (LARGEST, DType.INT64)]:
        nodes = [BEST, node("Add", "a c", "y")]
        graph = graph_of(model(nodes, PICTURE, {"y": WIDE}, {"c": integers(number)}))
        added = narrow_to_int32(mark_int32_ranges(graph).nodes[1])
        assert {v.dtype for v in (*added.inputs, *added.outputs) if v is not None} == {kind}


COUNT = {"k": integers(3)}
TAKEN = {
    "made real": ([BEST, node("Cast", "a", "y", to=REAL)], REAL, {}),
    "given an axis": ([BEST, node("Unsqueeze", "a c", "y")], WIDE, {"c": integers(0)}),
    "added to": ([BEST, node("Add", "a c", "y")], WIDE, {"c": integers(1)}),
    "joined": ([BEST, node("Concat", "a a", "y", axis=1)], WIDE, {}),
    "compared": (
        [BEST, node("Equal", "a c", "b"), node("Cast", "b", "y", to=REAL)],
        REAL,
        {"c": integers(2)},
    ),
    "divided": ([node("TopK", "x k", "v a"), node("Div", "a c", "y")], WIDE, {"c": integers(-2)}),
    "rest of a division": (
        [node("TopK", "x k", "v a"), node("Mod", "a c", "y")],
        WIDE,
        {"c": integers(2)},
    ),
    "looked up after a sum": (
        [BEST, node("Add", "a c", "b"), node("Gather", "t b", "y")],
        REAL,
        {"c": integers(2), "t": np.arange(12, dtype=np.float32).reshape(6, 2)},
    ),
    "chosen": (
        [BEST, node("Greater", "a c", "b"), node("Where", "b a c", "y")],
        WIDE,
        {"c": integers(1)},
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_operators_on_indices_are_taken_and_match(name: str) -> None:
    nodes, kind, constants = TAKEN[name]
    built = model(nodes, PICTURE, {"y": kind}, COUNT | constants).SerializeToString()
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
    nodes = [BEST, node("Add", "a c", "y")]
    built = model(nodes, PICTURE, {"y": WIDE}, {"c": integers(LARGEST)})
    (refused,) = ep_nnapi.check(built.SerializeToString()).rejections
    assert (refused.op_type, refused.reason) == ("Add", "DTYPE")


def test_sizes_that_are_symbolic_are_known_when_they_are_bound() -> None:
    """An index along any dimension plus 1 may not fit; along one of the run's sizes it does."""
    dynamic = {"x": (REAL, (1, "channels", 6, 6))}
    nodes = [BEST, node("Add", "a c", "y")]
    built = model(nodes, dynamic, {"y": WIDE}, {"c": integers(1)}).SerializeToString()
    report = ep_nnapi.check(built)
    assert (report.taken, len(report.clusters)) == (2, 1)
    ours = nnapi_session(built)
    theirs = session_of(built)
    for channels in (3, 5):
        x = np.random.default_rng(channels).standard_normal((1, channels, 6, 6))
        feeds = {"x": x.astype(np.float32)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])


# Numbers that inputs are supposed to have, which each run checks

POSITIONS = [  # as OPT has them, after one of padding; and what is added to its attention
    node("CumSum", "mask axis", "counts"),
    node("Mul", "counts mask", "seen"),
    node("Add", "seen one", "positions"),
    node("Slice", "mask zero one one", "first"),
    node("Concat", "first positions", "p", axis=1),
    node("Gather", "table p", "found"),
    node("Gather", "table ids", "words"),
    node("Cast", "mask", "kept", to=TensorProto.BOOL),
    node("Where", "kept high low", "bias"),
    node("Unsqueeze", "bias two", "column"),
    node("Mul", "words column", "masked"),
    node("Concat", "found masked", "y", axis=1),
]
OF_POSITIONS = {
    "axis": np.array(1),
    "zero": integers(0),
    "one": integers(1),
    "two": integers(2),
    "table": np.arange(300, dtype=np.float32).reshape(100, 3),
    "high": np.float32(1),
    "low": np.float32(-9),
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
    assert (len(cluster["nodes"]), cluster["device_runs"]) == (len(POSITIONS), 3)


@pytest.mark.parametrize("length", [3, "length"])
def test_runs_with_larger_numbers_are_the_cpu_providers(length: int | str) -> None:
    """2^33 + 1 would be 1 in 32 bits; the receipt says why another provider has the run."""
    nodes = [node("Add", "a c", "b"), node("Mul", "b b", "s"), node("Div", "s d", "y")]
    constants = {"c": integers(1), "d": integers(3)}
    built = model(nodes, {"a": (WIDE, (length,))}, {"y": WIDE}, constants).SerializeToString()
    ours, theirs = nnapi_session(built, severity=4), session_of(built)
    for numbers in ((3, 4, -5), (1, 1 << 33, 2), (1, -(1 << 15), 2), (1, -(1 << 15) - 1, 2)):
        a = integers(*numbers)
        np.testing.assert_array_equal(ours.run(None, {"a": a})[0], theirs.run(None, {"a": a})[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], len(cluster["nodes"])) == (2, 3)
    (fallback,) = cluster["fallbacks"]
    assert (fallback["to"], fallback["runs"]) == ("cpu", 2)
    assert "numbers for which arithmetic may exceed INT32" in fallback["reason"]


def test_files_suppose_no_numbers() -> None:
    """Nothing checks the runs of what ONNX Runtime compiles, so it is what all numbers allow."""
    nodes = [node("Cast", "a", "wide", to=TensorProto.FLOAT), node("Mul", "wide wide", "y")]
    built = model(nodes, {"a": (WIDE, (3,))}, {"y": TensorProto.FLOAT}, {}).SerializeToString()
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
    nodes = [
        node("Cast", "mask", "narrow", to=TensorProto.INT32),
        node("CumSum", "narrow axis", "counts"),
        node("Unsqueeze", "counts one", "wide"),
        node("Unsqueeze", "mask one", "column"),
        node("Cast", "column", "shown", to=TensorProto.INT32),
        node("Add", "wide shown", "y"),
    ]
    inputs, constants = {"mask": (WIDE, ("batch", "tokens"))}, {"one": integers(1)}
    constants["axis"] = np.array(1)
    built = model(nodes, inputs, {"y": TensorProto.INT32}, constants).SerializeToString()
    ours, theirs = nnapi_session(built), session_of(built)
    for tokens in (200, 5):
        feeds = {"mask": np.ones((1, tokens), np.int64)}
        np.testing.assert_array_equal(ours.run(None, feeds)[0], theirs.run(None, feeds)[0])
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (2, 1)


def limits_of(*nodes: onnx.NodeProto, **constants: np.ndarray) -> dict[str, int]:
    """The limits that the model's inputs `a` and `b` are supposed to have."""
    inputs = dict.fromkeys("ab", (WIDE, (1, 7)))
    graph = graph_of(model(nodes, inputs, {nodes[-1].output[0]: WIDE}, constants))
    made = suppose_ranges(replace(graph, key=""))
    values = (v for n in made.nodes for v in n.inputs if v is not None)
    return {v.name: v.limit for v in values if v.name in inputs}


def test_limits_are_no_lower_than_arithmetic_needs() -> None:
    one = {"c": integers(1)}
    assert limits_of(node("Add", "a b", "y")) == {"a": 1 << 24, "b": 1 << 24}
    assert limits_of(node("Mul", "a b", "y")) == {"a": 1, "b": 1 << 24}
    assert limits_of(node("Add", "a c", "s"), node("Mul", "s s", "y"), **one) == {"a": 1 << 15}
    cube = [node("Mul", "a a", "s"), node("Mul", "s s", "t"), node("Mul", "t s", "y")]
    assert limits_of(*cube) == {"a": 1}


def test_indexes_and_what_fits_anyway_need_no_limit() -> None:
    table = {"t": np.arange(6)}
    assert limits_of(node("Gather", "t a", "y"), **table) == {"a": 0}
    assert limits_of(node("Shape", "a", "s"), node("Add", "s s", "y")) == {"a": 0}


@pytest.mark.parametrize(("dims", "known"), [(("b", "n"), True), ((2**16, 2**16), False)])
def test_sums_of_truth_values_over_unknown_sizes_fit(dims: tuple[int | str, ...], known: bool):
    """A tensor has no more elements than Size may return; of known sizes they are counted."""
    given = {"x": (TensorProto.BOOL, dims)}
    cast = node("Cast", "x", "c", to=TensorProto.INT64)
    total = node("ReduceSum", "c", "s", keepdims=0)
    assert fits(cast, total, inputs=given) is known
    twice = node("Add", "c c", "d")
    assert not fits(cast, twice, node("ReduceSum", "d", "s", keepdims=0), inputs=given)
