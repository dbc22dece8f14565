"""The sizes that a graph with symbolic ones is judged with."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes import trial_sizes
from ep_nnapi.sizes.trial_sizes import sample_graphs
from tests.onnx_graph import graph_of, parsed, serialized
from tests.sizes.test_bind import convolution


def sizes(seen: Graph) -> tuple[int, ...]:
    return seen.inputs[0].shape


def cut(*most: int | None) -> Graph:
    """x [batch, length, width] plus as much of a table of `most` entries as x is large.

    A text longer than its table of positions has no sum with it; None: the table is large.
    """
    text = """(float[batch,length,width] x) => (float[?,?,?] y) {
        ends = Shape <start = 1> (x) part = Slice (table, starts, ends, axes)
        whole = Expand (part, ends) y = Add (x, whole) }"""
    table, starts = np.zeros([n or 1000 for n in most], np.float32), np.zeros(2, np.int64)
    return graph_of(parsed(text, table=table, starts=starts, axes=np.arange(2)))


def test_unknown_sizes_are_tried_twice_with_different_numbers() -> None:
    first, second = map(sizes, sample_graphs(convolution(), {}))
    assert first[1] == second[1] == 3
    assert all(a != b for i, (a, b) in enumerate(zip(first, second, strict=True)) if i != 1)


def test_fixed_sizes_are_the_only_sample() -> None:
    expected = [(1, 3, 32, 48)]
    assert [sizes(v) for v in sample_graphs(convolution(), {"x": (1, 3, 32, 48)})] == expected


def test_a_size_that_the_model_does_not_allow_is_replaced_by_one_that_it_does() -> None:
    """The usual lengths are 96 and 128; 50 positions leave 50 and half of it."""
    first, second = map(sizes, sample_graphs(cut(50, None), {}))
    assert first == (64, 50, 128)
    assert second == (96, 25, 160)


def test_the_usual_size_is_kept_where_it_just_fits() -> None:
    assert [sizes(v)[1] for v in sample_graphs(cut(128, None), {})] == [96, 128]
    assert [sizes(v)[1] for v in sample_graphs(cut(127, None), {})] == [96, 48]


def embedded(most: int) -> Graph:
    """x [batch, length, width] plus the entry of each place, of `most` places that there are."""
    text = """(float[batch,length,8] x) => (float[?,?,?] y) {
        sizes = Shape <start = 1, end = 2> (x) length = Squeeze (sizes)
        places = Range (zero, length, one) entries = Gather (table, places)
        y = Add (x, entries) }"""
    table, zero, one = np.zeros((most, 8), np.float32), np.array(0), np.array(1)
    return graph_of(parsed(text, table=table, zero=zero, one=one))


@pytest.mark.parametrize(("most", "lengths"), [(128, [96, 128]), (127, [96, 48]), (40, [40, 20])])
def test_no_more_places_are_tried_than_a_table_has(most: int, lengths: list[int]) -> None:
    assert [sizes(v)[1] for v in sample_graphs(embedded(most), {})] == lengths


def test_two_sizes_that_only_go_together() -> None:
    assert [sizes(v) for v in sample_graphs(cut(50, 50), {})] == [(64, 50, 50), (96, 25, 25)]


@pytest.mark.parametrize(("rank", "nodes", "size"), [(4, 1, 64), (5, 1, 1), (5, 0, 64)])
def test_no_more_is_tried_than_a_tensor_of_nnapi_holds(rank, nodes, size, monkeypatch):
    """64 * 96 * 128 * 160 floats are half a GiB; 192 times as many are too many.

    In graphs of more than so many nodes, no sizes are tried that constants do not suggest.
    """
    monkeypatch.setattr(trial_sizes, "_MAX_NODES", nodes)
    dims = ",".join(f"d{i}" for i in range(rank))
    graph = graph_of(parsed(f"(float[{dims}] x) => (float[{dims}] y) {{ y = Relu (x) }}"))
    assert sizes(sample_graphs(graph, {})[0])[0] == size


@pytest.mark.parametrize("fixed", [(1, 4, 32, 48), (1, 3, 32)])
def test_a_fixed_size_that_the_model_contradicts_is_named(fixed: tuple[int, ...]) -> None:
    with pytest.raises(
        OptionError, match=r"x is fixed to \[1, .*the model has \[batch,3,height,\?"
    ):
        sample_graphs(convolution(), {"x": fixed})


def test_a_fixed_name_that_is_no_input_is_named() -> None:
    with pytest.raises(OptionError, match=r"fix: z is no input .*known: x"):
        sample_graphs(convolution(), {"z": (1,)})


def compressed(*, width: int | None = None) -> Graph:
    """x [10, 8] -> Compress -> Relu -> y, and MatMul of that with `width` rows of weights."""
    product, last = ("", "b") if width is None else ("c = MatMul (b, w)", "c")
    text = f"""(float[10,8] x, bool[8] m) => ({last}) {{
        a = Compress <axis = 1> (x, m) b = Relu (a) {product} }}"""
    return graph_of(parsed(text, w=np.zeros((width or 1, 4), np.float32)))


def read(graph: Graph, index: int) -> tuple[object, ...] | None:
    """The sizes of the first input of a node."""
    value = graph.nodes[index].inputs[0]
    assert value is not None
    return value.dims


def test_two_samples_are_made_of_data_dependent_shapes() -> None:
    seen = sample_graphs(compressed(), {})
    assert [read(v, 1) for v in seen] == [(10, 64), (10, 96)]


def test_who_computes_it_has_no_sizes() -> None:
    for view in sample_graphs(compressed(), {}):
        (output,) = view.nodes[0].outputs
        assert output is not None
        assert output.dims is not None
        assert not isinstance(output.dims[1], int)


@pytest.mark.parametrize(("width", "size"), [(64, 64), (224, 224)])
def test_sizes_are_looked_for_that_go_with_what_follows(width: int, size: int) -> None:
    assert {read(v, 2) for v in sample_graphs(compressed(width=width), {})} == {(10, size)}


def test_nothing_is_assumed_where_only_known_sizes_are_taken() -> None:
    (view,) = sample_graphs(compressed(), {}, assume=False)
    dims = read(view, 1)
    assert dims is not None
    assert not isinstance(dims[1], int)


def f32(*shape: int) -> Array:
    return np.full(shape, 0.1, np.float32)


def bert() -> bytes:
    """64 positions, of which as many are read as there are tokens."""
    text = """(int64[batch,sequence] ids) => (float[?,?,?] y) {
        sizes = Shape <start = 1> (ids) part = Slice (positions, zero, sizes, one)
        to = Concat <axis = 0> (minus, sizes) places = Reshape (part, to)
        p = Gather (table, places) w = Gather (words, ids) y = Add (p, w) }"""
    tables = {"positions": np.arange(64)[None], "table": f32(64, 8), "words": f32(100, 8)}
    return serialized(text, zero=[0], one=[1], minus=[-1], **tables)


def sound() -> bytes:
    """Convolutions of wav2vec, which read at least 400 samples."""
    windows = [(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]
    steps = (
        f"c{i + 1} = Conv <strides = [{step}]> (c{i}, w{i})" for i, (_, step) in enumerate(windows)
    )
    text = f"(float[n,1,samples] c0) => (float[?,?,?] c7) {{ {' '.join(steps)} }}"
    weights = {f"w{i}": f32(4, 4 if i else 1, width) for i, (width, _) in enumerate(windows)}
    return serialized(text, **weights)


def encoder() -> bytes:
    """Whisper's: exactly as many frames as two for each of 1500 positions."""
    text = """(float[n,80,frames] x) => (float[?,?,?] y) {
        a = Conv <pads = [1, 1], strides = [2]> (x, w)
        t = Transpose <perm = [0, 2, 1]> (a) y = Add (t, positions) }"""
    return serialized(text, w=f32(8, 80, 3), positions=f32(1500, 8))


def lstm() -> bytes:
    """One feature, one sequence, no name for a size."""
    text = """(float[?,?,?] x) => (float[?,?,?,?] y) { t = Transpose <perm = [1, 0, 2]> (x)
        y = LSTM <hidden_size = 25> (t, W, R, , , h, h) }"""
    return serialized(text, W=f32(1, 100, 1), R=f32(1, 100, 25), h=f32(1, 1, 25))


def vgg() -> bytes:
    """Weights for 7 x 7 pixels, of images of sizes that go together."""
    text = """(float[n,3,height,width] x) => (float[?,?] y) {
        p = MaxPool <kernel_shape = [2, 2], strides = [8, 8]> (x) f = Flatten (p)
        y = Gemm (f, w) }"""
    return serialized(text, w=f32(147, 4))


@pytest.mark.parametrize("make", [bert, sound, encoder, lstm, vgg])
def test_onnx_runtime_computes_all_samples(make: Callable[[], bytes]) -> None:
    """Where the default sizes contradict the model, the sizes of both samples fit it."""
    session = session_of(make())
    for sample in sample_graphs(graph_of(onnx.load_from_string(make())), {}):
        given = {v.name: np.zeros(v.shape, v.dtype.numpy) for v in sample.inputs}
        assert session.run(None, given)[0].size


@pytest.mark.parametrize(
    ("join", "shapes"),
    [
        ("axis = 1", [[(64, 96), (64, 160), (64, 224)], [(96, 128), (96, 192), (96, 256)]]),
        ("axis = 0", [[(64, 96)] * 3, [(96, 128)] * 3]),
    ],
)
def test_a_batch_or_length_that_inputs_name_apart_is_one(join, shapes, monkeypatch):
    """It is found by few trials, of which each infers all shapes."""
    text = f"""(float[a,b] x, float[c,d] y, float[e,f] z) => (float[?,?] w) {{
        w = Concat <{join}> (x, y, z) }}"""
    trials, bind = [], trial_sizes.bind_and_check
    monkeypatch.setattr(
        trial_sizes, "bind_and_check", lambda *a, **k: trials.append(1) or bind(*a, **k)
    )
    samples = sample_graphs(graph_of(parsed(text)), {})
    assert [[v.shape for v in seen.inputs] for seen in samples] == shapes
    assert len(trials) <= 8


def test_inputs_of_any_rank_have_one_length() -> None:
    text = """(float[1,1,1,1,1,a] x, float[1,1,1,1,1,b] y) => (float[?,?,?,?,?,?] z) {
        z = Concat <axis = 0> (x, y) }"""
    for seen in sample_graphs(graph_of(parsed(text)), {}):
        assert seen.inputs[0].shape == seen.inputs[1].shape


def test_sizes_whose_names_are_sums_follow_from_the_others() -> None:
    """As of a decoder's mask, which is longer than its cache by one."""
    text = """(float[1,past] x, float[1,"past + 1"] mask) => (float[?,?] y) {
        longer = Concat <axis = 1> (x, one) y = Add (longer, mask) }"""
    for seen in sample_graphs(graph_of(parsed(text, one=np.ones((1, 1), np.float32))), {}):
        (_, past), (_, masked) = (value.shape for value in seen.inputs)
        assert masked == past + 1
