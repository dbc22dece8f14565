"""Prepared models of symbolic sizes: a compilation for each of the sizes in use, weights once."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.inspect_context import unpacked
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.litert import package
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.sessions.cpu import session_of
from tests.litert.needs import LITERT
from tests.native.sessions import prepared, python_session, session
from tests.onnx_graph import parsed
from tests.provider.test_buckets import masked

WIDE = """(float[n,64] x) => (float[n,64] y) <float[64,64] w> {
    a = MatMul (x, w) y = Tanh (a) }"""


def wide(text: str = WIDE) -> onnx.ModelProto:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype("f4") / 8
    return parsed(text, w=weights)


def contexts(path: Path) -> int:
    model = onnx.load(path, load_external_data=False)
    return sum(n.op_type == "EPContext" for g in graphs(model.graph) for n in g.node)


def same(ours: onnxruntime.InferenceSession, model: onnx.ModelProto, *given: dict) -> None:
    cpu = session_of(model.SerializeToString())
    for feeds in given:
        for got, want in zip(ours.run(None, feeds), cpu.run(None, feeds), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)  # sums in another order


def rows(count: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(count).standard_normal((count, 64)).astype("f4")}


@pytest.mark.parametrize("open_session", [session, python_session])
def test_runs_are_padded_to_the_sets_over_one_copy_of_the_weights(tmp_path: Path, open_session):
    """In C and in Python, with a row for each of three sets."""
    path = prepared(wide(), tmp_path, sizes="n=4,16,64")
    assert contexts(path) == 3
    (weights,) = path.parent.glob("*.weights")
    assert weights.stat().st_size < 1.1 * 64 * 64 * 4
    ours = open_session(path)
    same(ours, wide(), *map(rows, (1, 4, 5, 16, 17, 64)))
    with pytest.raises(Exception, match="x/"):
        ours.run(None, rows(65))


def text(batch: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    mask = np.ones((batch, length), np.float32)
    mask[0, -1] = 0
    return {"x": rng.standard_normal((batch, length, 4)).astype("f4"), "mask": mask}


def test_a_mask_and_two_symbols(tmp_path: Path):
    path = prepared(masked(), tmp_path, sizes="length=4,8;batch=1,2", mask="mask")
    assert contexts(path) == 4
    same(session(path), masked(), *(text(*s) for s in ((1, 3), (1, 7), (2, 2), (2, 8), (2, 5))))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"sizes": "length=4;batch=1"}, ModelError, "padding changes y; name the input"),
        ({"sizes": "length=4", "mask": "mask"}, ModelError, r"not in use \(batch\): name them"),
        ({"sizes": "length=4", "embed": True}, OptionError, "without embed"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict, error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        prepared(masked(), tmp_path, **options)


NAMELESS = """(float[n,64] z, float[?,64] x) => (float[n,64] c, float y) <float[64,64] w> {
    c = Tanh (z) a = MatMul (x, w) y = Tanh (a) }"""


def test_sizes_without_a_name_are_refused(tmp_path: Path):
    said = r"\(one without a name.*\): give each a name in the model, or fix them with --fix"
    with pytest.raises(ModelError, match=said):
        prepared(wide(NAMELESS), tmp_path, sizes="n=4")


def test_prepare_compares_it_with_the_original(tmp_path: Path):
    onnx.save(wide(), tmp_path / "m.onnx")
    made = ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / "out", format="context", sizes="n=4,16")
    (model,) = made.models
    assert model.error is None
    assert model.worst is not None
    assert contexts(next((tmp_path / "out").glob("*.onnx"))) == 2


EXP = """(float[n,64] x) => (float[n,64] y) <float[64,64] w> {
    a = MatMul (x, w) b = Exp (a) s = Shape (b) y = Reshape (b, s) }"""


@pytest.mark.parametrize("open_session", [session, python_session])
@pytest.mark.parametrize("prefer", ["nnapi", "cpu"])
def test_each_of_the_sets_has_alternatives(tmp_path: Path, open_session, prefer: str):
    """EXP is NNAPI's from level 3 on. All programs of all sets have one copy of the weights."""
    model = wide(EXP)
    path = prepared(model, tmp_path, sizes="n=4,16", alternatives="nnapi:4,nnapi:1,cpu")
    names = [[a.name for a in alternatives] for _, _, alternatives in unpacked(path)]
    assert names == [["nnapi:3", "nnapi:1", "cpu"]] * 2
    (weights,) = path.parent.glob("*.weights")
    assert weights.stat().st_size < 64 * 64 * 4 + 8192
    same(open_session(path, prefer=prefer), model, *map(rows, (1, 4, 5, 16)))


@LITERT
@pytest.mark.parametrize("open_session", [session, python_session])
def test_each_of_the_sets_has_a_flatbuffer(tmp_path: Path, open_session):
    model = wide(EXP)
    path = prepared(model, tmp_path, sizes="n=4,16", alternatives="nnapi:4,litert,cpu")
    names = [[a.name for a in alternatives] for _, _, alternatives in unpacked(path)]
    assert names == [["nnapi:3", "litert", "cpu"]] * 2
    (weights,) = path.parent.glob("*.weights")
    assert weights.stat().st_size < 64 * 64 * 4 + 1024
    library = {"litert": package.library()[0]} if open_session is session else {}
    same(open_session(path, prefer="litert-cpu", **library), model, *map(rows, (1, 4, 5, 16)))
