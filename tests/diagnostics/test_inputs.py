"""Inputs of a run: from files, or drawn."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from PIL import Image

from ep_nnapi.diagnostics.inputs import InputSpec, random_feeds, read_feeds, spec_of
from ep_nnapi.diagnostics.session_runs import feeds_of, nnapi_session, open_session, outputs_of
from ep_nnapi.nnapi.errors import ModelError, OptionError, RuntimeFailure
from ep_nnapi.options.table import parse
from ep_nnapi.sessions.cpu import exact_options
from tests.faulty import FAULTY, FaultyDevice, installed
from tests.onnx_graph import serialized
from tests.sizes.test_trial_sizes import bert, encoder, lstm, sound, vgg

F32 = np.dtype(np.float32)
GREY = InputSpec("image", F32, (1, 1, 4, 6))


def spec(name: str, *dims: int | str | None, dtype: str = "float32") -> InputSpec:
    return InputSpec(name, np.dtype(dtype), dims)


def npy(path: Path, array: np.ndarray) -> str:
    np.save(path, array)
    return str(path)


def refused(paths: list[str], inputs: list[InputSpec], says: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_feeds(paths, inputs)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# drawn ---------------------------------------------------------------------------------------


def test_drawn_inputs_have_type_and_shape_and_repeat():
    inputs = [spec("x", 2, 3), spec("n", None, "rows", dtype="int64"), spec("b", dtype="bool")]
    (first,), (again,), (other,) = (random_feeds(inputs, seed).runs for seed in (1, 1, 2))
    expected = [((2, 3), F32), ((1, 1), np.dtype(np.int64)), ((), np.dtype(np.bool_))]
    assert [(a.shape, a.dtype) for a in first.values()] == expected
    assert all(np.array_equal(first[n], again[n]) for n in first)
    assert not np.array_equal(first["x"], other["x"])
    assert first["n"].min() >= 0


@pytest.mark.parametrize("size", [2**45, 2**62, -2])
def test_sizes_that_no_memory_holds_are_refused(size: int):
    with pytest.raises(ModelError, match=r"input x has shape .* which no memory holds"):
        random_feeds([spec("x", 1, size, 8)], 0)


def test_types_that_numpy_lacks_are_refused():
    with pytest.raises(OptionError, match="input words is tensor"):
        spec_of("words", "tensor(string)", [1])
    assert spec_of("x", "tensor(float16)", [1, "n"]).dtype == np.float16


# arrays --------------------------------------------------------------------------------------


def test_npy_for_the_only_input(tmp_path: Path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (feeds,) = read_feeds([npy(tmp_path / "a.npy", x)], [spec("x", 2, 3)]).runs
    np.testing.assert_array_equal(feeds["x"], x)


def test_arrays_are_given_the_inputs_type(tmp_path: Path):
    path = npy(tmp_path / "a.npy", np.arange(3))
    (feeds,) = read_feeds([path], [spec("x", 3)]).runs
    assert feeds["x"].dtype == F32
    assert feeds["x"].flags.c_contiguous


def test_named_files_for_several_inputs(tmp_path: Path):
    a, b = npy(tmp_path / "1.npy", np.ones(2)), npy(tmp_path / "2.npy", np.zeros(3))
    inputs = [spec("a", 2), spec("b", 3)]
    for paths in ([f"a={a}", f"b={b}"], [f"b={b}", f"a={a}"]):
        (feeds,) = read_feeds(paths, inputs).runs
        assert feeds["a"].tolist() == [1, 1]
        assert feeds["b"].tolist() == [0, 0, 0]


def test_an_equals_sign_that_names_no_input_is_part_of_the_path(tmp_path: Path):
    path = npy(tmp_path / "k=v.npy", np.ones(2))
    (feeds,) = read_feeds([path], [spec("x", 2)]).runs
    assert feeds["x"].tolist() == [1, 1]


def test_a_file_for_an_input_that_is_none_names_those_there_are(tmp_path: Path):
    path = npy(tmp_path / "1.npy", np.ones(2))
    with pytest.raises(OptionError) as refused:
        read_feeds([f"imagee={path}"], [spec("image", 2), spec("mask", 3)])
    says = "the model has no input 'imagee'; its inputs are image, mask; did you mean image?"
    assert str(refused.value) == says


def test_npz_by_the_names_of_inputs(tmp_path: Path):
    np.savez(tmp_path / "a.npz", a=np.ones(2), b=np.zeros(3))
    (feeds,) = read_feeds([str(tmp_path / "a.npz")], [spec("a", 2), spec("b", 3)]).runs
    assert {n: a.shape for n, a in feeds.items()} == {"a": (2,), "b": (3,)}


@pytest.mark.parametrize("called", ["image", "images", "arr_0"])
def test_npz_with_one_array_and_labels(called: str, tmp_path: Path):
    """The name of the input, its plural for rows, and numpy's own for an array without a name."""
    np.savez(tmp_path / "a.npz", **{called: np.ones((2, 3))}, labels=np.array([4, 5]))
    feeds = read_feeds([str(tmp_path / "a.npz")], [spec("image", 2, 3)])
    assert feeds.labels.tolist() == [4, 5]
    assert set(feeds.runs[0]) == {"image"}


@pytest.mark.parametrize("called", ["imagee", "arr_1", "Image"])
def test_npz_whose_array_has_another_name(called: str, tmp_path: Path):
    np.savez(tmp_path / "a.npz", **{called: np.ones((2, 3))})
    with pytest.raises(OptionError, match=rf"a.npz: array '{called}' is no input; .* are image"):
        read_feeds([str(tmp_path / "a.npz")], [spec("image", 2, 3)])
    named = read_feeds([f"image={tmp_path / 'a.npz'}"], [spec("image", 2, 3)])
    assert set(named.runs[0]) == {"image"}


def test_labels_may_be_an_input(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.ones(2), labels=np.ones(1))
    feeds = read_feeds([str(tmp_path / "a.npz")], [spec("x", 2), spec("labels", 1)])
    assert feeds.labels is None
    assert set(feeds.runs[0]) == {"x", "labels"}


def test_scalars(tmp_path: Path):
    (feeds,) = read_feeds([npy(tmp_path / "a.npy", np.array(7.0))], [spec("x")]).runs
    assert feeds["x"].shape == ()
    assert feeds["x"] == 7


# rows ----------------------------------------------------------------------------------------


def test_more_rows_than_the_model_takes_are_runs(tmp_path: Path):
    rows = np.arange(12.0).reshape(6, 2)
    feeds = read_feeds([npy(tmp_path / "a.npy", rows)], [spec("x", 2, 2)])
    assert [f["x"].tolist() for f in feeds.runs] == [rows[i : i + 2].tolist() for i in (0, 2, 4)]


def test_any_number_of_rows_is_one_run_where_the_model_takes_any(tmp_path: Path):
    path = npy(tmp_path / "a.npy", np.ones((6, 2)))
    (feeds,) = read_feeds([path], [spec("x", "n", 2)]).runs
    assert feeds["x"].shape == (6, 2)


def test_an_input_of_any_size_goes_whole_into_every_run(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.ones((4, 2)), z=np.array(1.0))
    inputs = [spec("x", 1, 2), spec("y", None, 2), spec("z")]
    feeds = read_feeds([str(tmp_path / "a.npz")], inputs)
    assert [tuple(a.shape for a in f.values()) for f in feeds.runs] == [((1, 2), (4, 2), ())] * 3


def test_inputs_of_different_numbers_of_rows_are_refused(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.ones((4, 2)))
    refused([str(tmp_path / "a.npz")], [spec("x", 1, 2), spec("y", 1, 2)], "rows for [3, 4] runs")


# images --------------------------------------------------------------------------------------


def picture(path: Path, size: tuple[int, int] = (6, 4), mode: str = "L") -> str:
    width, height = size
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.arange(width * height * channels, dtype=np.uint8).reshape(height, width, channels)
    Image.fromarray(pixels.squeeze() if channels == 1 else pixels, mode).save(path)
    return str(path)


def test_grey_image(tmp_path: Path):
    (feeds,) = read_feeds([picture(tmp_path / "a.png")], [GREY]).runs
    np.testing.assert_array_equal(
        feeds["image"], (np.arange(24, dtype=np.uint8).reshape(1, 1, 4, 6) / 255).astype(F32)
    )


def test_colour_image_first_and_last(tmp_path: Path):
    path = picture(tmp_path / "a.png", mode="RGB")
    (first,) = read_feeds([path], [spec("x", 1, 3, 4, 6)]).runs
    (last,) = read_feeds([path], [spec("x", 1, 4, 6, 3)]).runs
    assert first["x"].shape == (1, 3, 4, 6)
    np.testing.assert_array_equal(first["x"].transpose(0, 2, 3, 1), last["x"])


def test_image_of_another_size_is_resized(tmp_path: Path):
    (feeds,) = read_feeds([picture(tmp_path / "a.png", (12, 8))], [GREY]).runs
    assert feeds["image"].shape == (1, 1, 4, 6)


def test_image_keeps_its_size_where_any_will_do(tmp_path: Path):
    path = picture(tmp_path / "a.png", (12, 8))
    (feeds,) = read_feeds([path], [spec("x", 1, 1, "h", "w")]).runs
    assert feeds["x"].shape == (1, 1, 8, 12)


def test_image_as_integers_keeps_0_to_255(tmp_path: Path):
    path = picture(tmp_path / "a.png")
    (feeds,) = read_feeds([path], [spec("x", 1, 1, 4, 6, dtype="uint8")]).runs
    assert feeds["x"].max() == 23


def test_image_needs_rank_4(tmp_path: Path):
    refused([picture(tmp_path / "a.png")], [spec("x", 4, 6)], "has rank 2, an image needs 4")


def test_image_needs_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = picture(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    refused([path], [GREY], "needs pillow (pip install pillow)")


# what cannot be used -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (6,), (1, 2, 3), ()])
def test_shapes_that_do_not_fit(shape: tuple[int, ...], tmp_path: Path):
    says = f"input x has shape {list(shape)}; the model takes [2, 3]"
    refused([npy(tmp_path / "a.npy", np.zeros(shape))], [spec("x", 2, 3)], says)


def test_unknown_sizes_are_shown_by_name(tmp_path: Path):
    path = npy(tmp_path / "a.npy", np.zeros(3))
    refused([path], [spec("x", "n", None, 3)], "the model takes [n, ?, 3]")


def test_sizes_of_an_unknown_rank_are_those_given(tmp_path: Path):
    """A session shows such an input without dimensions."""
    given = np.ones((2, 3))
    (run,) = read_feeds([npy(tmp_path / "a.npy", given)], [spec("x")]).runs
    np.testing.assert_array_equal(run["x"], given)


@pytest.mark.parametrize("array", [np.array(["a", "b"]), np.array([1j, 2]), np.array([], "M8[s]")])
def test_elements_that_are_no_numbers(array: np.ndarray, tmp_path: Path):
    refused([npy(tmp_path / "a.npy", array)], [spec("x", len(array))], "it takes float32")


def test_missing_input_is_named(tmp_path: Path):
    path = npy(tmp_path / "a.npy", np.zeros(2))
    refused(
        [f"a={path}"], [spec("a", 2), spec("b", 2)], "input b is not given; pass --input b=FILE"
    )


def test_an_array_for_one_of_several_must_be_named(tmp_path: Path):
    path = npy(tmp_path / "a.npy", np.zeros(2))
    refused([path], [spec("b", 2), spec("a", 2)], "the array is no input; the model's are a, b")


def test_an_array_of_another_name_is_refused(tmp_path: Path):
    np.savez(tmp_path / "a.npz", a=np.zeros(2), c=np.zeros(2))
    refused([str(tmp_path / "a.npz")], [spec("a", 2), spec("b", 2)], "array 'c' is no input")


@pytest.mark.parametrize("name", ["a.npy", "a.png"])
def test_a_model_without_inputs_takes_none(name: str, tmp_path: Path):
    path = tmp_path / name
    if name == "a.png":
        path.write_bytes(b"")
        refused([str(path)], [], "not a .npy, .npz or image file")
    else:
        refused([npy(path, np.zeros(2))], [], "the model's are none")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.png", "a.txt"])
def test_files_that_are_something_else(name: str, tmp_path: Path):
    (tmp_path / name).write_text("this is text")
    refused([str(tmp_path / name)], [GREY], f"{name}: not a")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.png"])
def test_files_cut_short(name: str, tmp_path: Path):
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, np.zeros((1, 1, 4, 6)))
    elif name == "a.npz":
        np.savez(path, image=np.zeros((1, 1, 4, 6)))
    else:
        picture(path)
    path.write_bytes(path.read_bytes()[:-20])
    refused([str(path)], [GREY], f"{name}: not a")


def test_damaged_array_in_an_npz(tmp_path: Path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, image=np.random.default_rng(0).random((1, 1, 4, 6)))
    content = bytearray(path.read_bytes())
    content[150:170] = bytes(20)
    path.write_bytes(content)
    refused([str(path)], [GREY], "a.npz: not a .npy, .npz or image file")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_pickled_objects_are_not_loaded(name: str, tmp_path: Path):
    objects = np.array([{"a": 1}], dtype=object)
    if name == "a.npy":
        np.save(tmp_path / name, objects, allow_pickle=True)
    else:
        np.savez(tmp_path / name, image=objects)
    refused([str(tmp_path / name)], [GREY], "not a .npy, .npz or image file")


# Inputs of the runs of a session: random ones of sizes that the model can run

BATCHES = {"x": np.ones((3, 5), np.float32)}


def in_rows(rows: int) -> tuple[bytes, onnxruntime.InferenceSession]:
    """A network, and its session, for inputs [batch, n] that have a multiple of `rows` elements."""
    text = f"(float[batch,n] x) => (float[{rows},m] y) {{ a = Abs (x) y = Reshape (a, in_rows) }}"
    made = serialized(text, in_rows=[rows, -1])
    return made, open_session(made, exact_options())


@pytest.mark.parametrize(
    ("rows", "size"), [(1, 1), (2, 2), (32, 32), (64, 64), (7, 7), (1000, 1000)]
)
def test_random_inputs_have_a_size_that_the_model_can_run(rows: int, size: int, capfd):
    (fed,) = feeds_of(*in_rows(rows), (), 0, ()).runs
    assert fed["x"].shape == (1, size)
    assert capfd.readouterr() == ("", "")


def test_sizes_that_are_fixed_stay() -> None:
    (fed,) = feeds_of(*in_rows(2), (), 0, (("x", (3, 5)),)).runs
    assert fed["x"].shape == (3, 5)


def test_inputs_that_are_given_stay() -> None:
    (fed,) = feeds_of(*in_rows(2), BATCHES, 0, ()).runs
    assert fed["x"] is BATCHES["x"]


@pytest.mark.parametrize("make", [bert, sound, encoder, lstm, vgg])
def test_random_inputs_agree_with_the_constants_of_the_model(make: Callable[[], bytes]) -> None:
    """One row of them, where the model allows any number."""
    session = open_session(make(), exact_options())
    (fed,) = feeds_of(make(), session, (), 0).runs
    assert session.run(None, dict(fed))[0].size
    assert next(iter(fed.values())).shape[0] == 1


def fed_to(text: str, **constants: object) -> dict[str, np.ndarray]:
    """The random inputs of a model."""
    made = serialized(text, **constants)
    (fed,) = feeds_of(made, open_session(made, exact_options()), (), 0).runs
    return dict(fed)


def test_sizes_that_nodes_in_a_branch_ask_for() -> None:
    """A window in one input and a state of one row in another, as in Silero VAD."""
    branch = """{0} () => (float[?,?] {0}_y) {{
        {0}_p = Pad <mode = "reflect"> (x, pads) {0}_s = ReduceSum ({0}_p)
        {0}_r = Reshape (state, eight) {0}_y = Add ({0}_s, {0}_r) }}"""
    text = f"""(float[?,?] x, float[2,?,4] state, bool c) => (float[?,?] y) {{
        y = If (c) <then_branch = {branch.format("t")}, else_branch = {branch.format("e")}> }}"""
    fed = fed_to(text, pads=[0, 0, 0, 100], eight=[8])
    assert fed["x"].shape == (1, 224)
    assert fed["state"].shape == (2, 1, 4)


def test_rows_that_indices_ask_for() -> None:
    """Random indices are 0 and 1; a dimension has the same size in each input."""
    ends = "(float[atoms,3] x, int64[8,atoms] i) => (float[8,atoms,3] y)"
    fed = fed_to(f"{ends} {{ y = Gather (x, i) }}")
    assert fed["x"].shape == (2, 3)
    assert fed["i"].shape == (8, 2)


@pytest.mark.parametrize(("fallback", "fed"), [("none", (2, 3)), ("cpu", (2, 4))])
def test_the_error_of_a_run_is_its_own(fallback: str, fed: tuple[int, int]) -> None:
    """The device's if it failed in this run; of wrong inputs after such a run, ONNX Runtime's."""
    content = serialized("(float[2,3] x) => (float[2,3] y) { y = Exp (x) }")
    with installed(FaultyDevice(fails_at=frozenset({0}))):
        options = parse({"device": FAULTY, "fallback": fallback})
        provider, session = nnapi_session(content, options)
        if fallback == "cpu":
            outputs_of(session, {"x": np.zeros((2, 3), np.float32)}, provider)
            assert provider.failures
        own = RuntimeFailure if fallback == "none" else ModelError
        with pytest.raises(own):
            outputs_of(session, {"x": np.zeros(fed, np.float32)}, provider)


@pytest.mark.parametrize("rows", [0, 2])
def test_maps_of_a_classifier_are_rows_of_one_output(rows: int) -> None:
    """ZipMap computes them, which what scikit-learn's classifiers become ends with."""
    classes = helper.make_node(
        "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[7, 5]
    )
    maps = helper.make_map_type_proto(
        onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    ends = (
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 2]),
        helper.make_value_info("y", helper.make_sequence_type_proto(maps)),
    )
    graph = helper.make_graph([classes], "graph", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    found = outputs_of(open_session(content, exact_options()), {"x": x}, None)
    assert list(found) == (["y"] if rows else [])
    assert all(np.array_equal(y, x[:, ::-1]) for y in found.values())  # by the order of keys
