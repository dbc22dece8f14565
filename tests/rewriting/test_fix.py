"""Rewrites that are kept, and the verified model that is written."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ep_nnapi
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.table import parse
from ep_nnapi.rewriting import fix as fixing
from ep_nnapi.rewriting.fix import RewriteSearch
from ep_nnapi.rewriting.rewrites import clips_as_min_and_max, expand_definitions
from ep_nnapi.sessions.cpu import session_of
from models.quantized import quantized
from tests.cli.command import DIGITS
from tests.onnx_graph import parsed
from tests.rewriting.equality import model_of


def copy(model: onnx.ModelProto, names: object) -> onnx.ModelProto | None:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def unknown_operator(model: onnx.ModelProto, names: object) -> onnx.ModelProto | None:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node[0].op_type = "None"
    return made


@pytest.fixture
def search(tmp_path: Path) -> RewriteSearch:
    """One that has begun with activations that ONNX Runtime's own provider refuses."""
    found = RewriteSearch(tmp_path, parse({"target": "builtin-nnapi"}))
    first = found.optimized(activations())
    found.start("optimized", found._checked(first), first)
    return found


def test_each_step_starts_where_the_last_one_ended(search: RewriteSearch):
    search.attempt("clips", clips_as_min_and_max)
    search.attempt("definitions", expand_definitions)
    assert [s.name for s in search.steps] == ["clips (Clip)", "definitions (HardSigmoid)"]
    one, other = search.steps
    assert one.after == other.before
    assert other.after == search.report
    for step in search.steps:
        before = (left(step.before), len(step.before.clusters))
        assert (left(step.after), len(step.after.clusters)) < before


def test_a_rewrite_that_gains_nothing_is_named(search: RewriteSearch):
    search.attempt("copies", copy)
    assert (search.steps, search.useless) == ([], ["copies"])


def test_a_result_that_onnx_runtime_cannot_load_is_no_rewrite(search: RewriteSearch):
    search.attempt("unknown", unknown_operator)
    assert (search.steps, search.useless) == ([], [])


def test_gains_keeps_nothing(search: RewriteSearch):
    before = search.model
    assert search.gains(clips_as_min_and_max)
    assert not search.gains(copy)
    assert (search.model is before, search.steps, search.useless) == (True, [], [])


X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)


def left(report: ep_nnapi.Report) -> int:
    return report.nodes - report.taken


def activations() -> onnx.ModelProto:
    """Clip to [0, 1] and HardSwish, which ONNX Runtime's own provider refuses."""
    text = "t = Tanh (x) c = Clip (t, zero, one) e = Exp (c) y = HardSwish (e)"
    constants = {"zero": np.array(0, np.float32), "one": np.array(1, np.float32)}
    return model_of(text, {"x": X.shape}, {"y": X.shape}, constants)


def test_forms_of_activations_join_clusters(tmp_path: Path):
    out = tmp_path / "fixed.onnx"
    model = activations()
    found = ep_nnapi.fix(model, out, target="builtin-nnapi")
    assert found.written
    assert left(found.before) == 2
    assert (left(found.after), len(found.after.clusters)) == (0, 1)
    names = [s.name for s in found.steps]
    assert "Clip as Max and Min (Clip)" in names
    assert "operators by their definitions (HardSigmoid)" in names
    assert ep_nnapi.check(out, target="builtin-nnapi").taken == found.after.taken
    (want,), (got,) = (
        session_of(m).run(None, {"x": X}) for m in (model.SerializeToString(), str(out))
    )
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)  # another order of float32 steps


def test_sizes_are_fixed_and_shapes_folded(tmp_path: Path):
    """A reshape to the size of the batch, found at run time, becomes one to constants."""
    text = """(float[batch,3,4] x) => (float[batch,12] y) {
        s = Shape (x) n = Gather (s, first) sizes = Concat <axis = 0> (n, rest)
        r = Relu (x) y = Reshape (r, sizes) }"""
    model = parsed(text, 18, 8, first=[0], rest=[-1])
    out = tmp_path / "fixed.onnx"
    found = ep_nnapi.fix(model, out, target="builtin-nnapi", fix={"batch": 2})
    assert found.steps[0].name == "sizes fixed, shapes folded"
    assert left(found.after) == 0
    assert [n.op_type for n in onnx.load(out).graph.node] == ["Relu", "Reshape"]


def test_heads_of_fixed_sizes_are_those_of_the_original(tmp_path: Path):
    """As of a BERT: what is written for batch and length runs, and computes the same."""
    text = """(float[batch,seq,8] x) => (float[batch,seq,8] y) {
        s = Shape (x) b = Gather (s, zero) q = Gather (s, one)
        split = Concat <axis = 0> (b, q, heads) joined = Concat <axis = 0> (b, q, width)
        r = Reshape (x, split) t = Transpose <perm = [0, 2, 1, 3]> (r) k = Softmax <axis = -1> (t)
        back = Transpose <perm = [0, 2, 1, 3]> (k) y = Reshape (back, joined) }"""
    model = parsed(text, 18, 8, zero=[0], one=[1], heads=[2, 4], width=[8])
    out = tmp_path / "fixed.onnx"
    found = ep_nnapi.fix(model, out, target="builtin-nnapi", fix="batch=1;seq=16")
    assert left(found.after) == 0
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 16, 8)).astype(np.float32)}
    before = session_of(model.SerializeToString())
    wanted, got = (s.run(None, feeds)[0] for s in (before, session_of(str(out))))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)  # exp in another order


@pytest.mark.parametrize("target", ["builtin-nnapi"])
def test_int8_activations(tmp_path: Path, target: str):
    """ONNX Runtime's own provider takes uint8 only."""
    found = ep_nnapi.fix(quantized("digits", "s8s8"), tmp_path / "fixed.onnx", target=target)
    assert found.before.taken == 0
    assert found.after.taken == 20
    assert [s.name for s in found.steps] == ["int8 as uint8 (QuantizeLinear)"]
    assert found.verdict.worst <= 0.05  # the tolerance of quantized models, as `run` has it


def test_transposes_of_rank_5(tmp_path: Path):
    """A channel shuffle stays on NNAPI, which takes four axes."""
    text = """a = Abs (x) b = Reshape (a, five) c = Transpose <perm = [0, 2, 1, 3, 4]> (b)
        d = Reshape (c, four) y = Tanh (d)"""
    constants = {"five": np.array([1, 2, 3, 4, 4]), "four": np.array([1, 6, 4, 4])}
    model = model_of(text, {"x": [1, 6, 4, 4]}, {"y": [1, 6, 4, 4]}, constants)
    found = ep_nnapi.fix(model, tmp_path / "fixed.onnx", target="builtin-nnapi")
    assert found.written
    assert left(found.after) == 0
    assert [s.name.partition(" (")[0] for s in found.steps] == ["transposes in fewer axes"]


def test_nothing_to_gain_writes_nothing(tmp_path: Path):
    found = ep_nnapi.fix(DIGITS, tmp_path / "fixed.onnx")
    assert (found.written, found.steps, found.verdict) == (False, (), None)
    assert not (tmp_path / "fixed.onnx").exists()


def test_a_wrong_rewrite_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One that drops the upper limit gains a node, and the comparison refuses it."""

    def wrong(model: onnx.ModelProto, names: object) -> onnx.ModelProto | None:
        made = fixing.clips_as_min_and_max(model, names)
        for node in made.graph.node if made else ():
            if node.op_type == "Min":
                node.op_type = "Max"
        return made

    monkeypatch.setattr(fixing, "REWRITES", {"wrong": wrong})
    found = ep_nnapi.fix(activations(), tmp_path / "fixed.onnx", target="builtin-nnapi")
    assert found.steps
    assert found.verdict.negative
    assert not found.written
    assert not (tmp_path / "fixed.onnx").exists()


def masked() -> onnx.ModelProto:
    """Numbers to add where a mask is 0, as text models compute them from INT64."""
    text = """(int64[2,8] mask) => (float[2,1,8] y) { [u] u = Unsqueeze (mask, axis)
        [s] s = Sub (one, u) [c] c = Cast <to = 1> (s) [m] y = Mul (c, low) }"""
    return parsed(text, 18, 8, axis=[1], one=1, low=np.float32(-10))


def test_int64_is_int32_where_its_range_is_stated(tmp_path: Path):
    out = tmp_path / "fixed.onnx"
    found = ep_nnapi.fix(masked(), out, ranges={"mask": (0, 1)})
    assert (left(found.before), left(found.after), len(found.after.clusters)) == (3, 0, 1)
    assert [s.name.partition(" (")[0] for s in found.steps] == ["INT64 as INT32"]
    assert (found.verdict.worst, found.unknown_ranges) == (0, {})
    fixed = onnx.load(out)
    assert fixed.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64
    mask = np.random.default_rng(0).integers(0, 2, (2, 8))
    want, got = (
        session_of(m).run(None, {"mask": mask}) for m in (masked().SerializeToString(), str(out))
    )
    np.testing.assert_array_equal(got[0], want[0])


def test_an_input_of_unknown_range_is_named(tmp_path: Path):
    out = tmp_path / "fixed.onnx"
    found = ep_nnapi.fix(masked(), out)
    assert (found.written, found.unknown_ranges) == (False, {"mask": None})
    mask = np.array([[0, 1, 2, 3] * 2] * 2)
    assert ep_nnapi.fix(masked(), out, inputs=mask).unknown_ranges == {"mask": (0, 3)}


def test_a_range_that_the_inputs_leave(tmp_path: Path):
    mask = np.full((2, 8), 2)
    with pytest.raises(OptionError, match="the given mask has elements from 2 to 2, outside of"):
        ep_nnapi.fix(masked(), tmp_path / "fixed.onnx", inputs=mask, ranges={"mask": (0, 1)})


def test_what_cannot_be_fixed(tmp_path: Path):
    ep_nnapi.prepare(DIGITS, tmp_path, verify=False)
    with pytest.raises(ModelError, match=r"it cannot be rewritten: it is no \.onnx file with"):
        ep_nnapi.fix(tmp_path / "digits.ort", tmp_path / "out.onnx")
    with pytest.raises(OptionError, match=r"give the path of an \.onnx file in a folder"):
        ep_nnapi.fix(DIGITS, tmp_path / "out.ort")
    with pytest.raises(OptionError, match=r"give the path of an \.onnx file in a folder"):
        ep_nnapi.fix(DIGITS, tmp_path / "none" / "out.onnx")
    with pytest.raises(OptionError, match="batch"):
        ep_nnapi.fix(DIGITS, tmp_path / "out.onnx", fix={"batch": 1})
