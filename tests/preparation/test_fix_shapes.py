"""The option `fix`: sizes that are written into what is prepared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import ep_nnapi
from tests.onnx_graph import parsed
from tests.preparation.fresh import CPU

FLOAT = TensorProto.FLOAT


def symbolic(path: Path) -> Path:
    """y = Relu(x W) + z, for any number of rows that x and z share."""
    text = """(float[rows,4] x, float[rows,?] z) => (float[rows,columns] y) {
        m = MatMul (x, w) r = Relu (m) y = Add (r, z) }"""
    weights = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    onnx.save(parsed(text, w=weights), path)
    return path


def shapes(path: Path, **options: object) -> dict[str, list[object]]:
    """The inputs and outputs as a session shows them."""
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 4
    if options:
        ep_nnapi.append_execution_provider(chosen, **options)
    providers = None if options else CPU
    session = onnxruntime.InferenceSession(str(path), chosen, providers=providers)
    return {v.name: v.shape for v in (*session.get_inputs(), *session.get_outputs())}


@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
def test_fixed_sizes_are_in_what_is_prepared(form: str, tmp_path: Path) -> None:
    source = symbolic(tmp_path / "a.onnx")
    done = ep_nnapi.prepare(source, tmp_path / "out", format=form, fix="x=2,4;z=2,3")
    (found,) = done.models
    assert found.error is None
    assert found.worst == pytest.approx(0, abs=1e-5)  # sums of four products, in another order
    options = {"feature_level": 8} if form == "context" else {}
    path = tmp_path / "out" / found.output
    assert shapes(path, **options) == {"x": [2, 4], "z": [2, 3], "y": [2, 3]}
    assert source.exists()
    assert not [p for p in path.parent.iterdir() if "fixed" in p.name]


def test_an_ort_file_is_fixed_too(tmp_path: Path) -> None:
    ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "b.ort", verify=False)
    ep_nnapi.prepare(tmp_path / "b.ort", tmp_path / "c.ort", verify=False, fix="x=2,4;z=2,3")
    assert shapes(tmp_path / "c.ort") == {"x": [2, 4], "z": [2, 3], "y": [2, 3]}


@pytest.mark.parametrize(
    ("fix", "says"),
    [
        ("q=1,4", "fix: q is no input or symbolic dimension; known: x, z, rows"),
        ("row=2", "fix: row is no input .* did you mean rows?"),
        ("rows=2,3", r"fix: rows is \[2, 3\]; a symbolic dimension has one size"),
        ("rows=2;x=3,4", "fix: rows has two sizes, 2 and 3"),
        ("x=2,4;z=3,3", "fix: rows has two sizes, 2 and 3"),
        ("x=1,5", r"x is fixed to \[1, 5\]; the model has \[rows,4\]"),
        ("x=1,4,1", r"x is fixed to \[1, 4, 1\]"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fix: str, says: str, tmp_path: Path) -> None:
    with pytest.raises((ep_nnapi.ModelError, ep_nnapi.OptionError), match=says):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", fix=fix)


def test_contexts_need_sizes_and_say_so(tmp_path: Path) -> None:
    with pytest.raises(ep_nnapi.ModelError, match=r"depend on x, z, so .* with --fix x=SIZES"):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", format="context")


def test_contexts_need_a_node_and_say_so(tmp_path: Path) -> None:
    given = {"format": "context", "exclude": "MatMul,Relu,Add,Gemm", "fix": "x=2,4;z=2,3"}
    with pytest.raises(ep_nnapi.ModelError, match="NNAPI takes no node of this model"):
        ep_nnapi.prepare(symbolic(tmp_path / "a.onnx"), tmp_path / "out", **given)


@pytest.mark.parametrize("fix", ["rows=7", {"rows": 7}, {"rows": (7,)}])
def test_a_symbol_is_fixed_by_its_name(fix: object, tmp_path: Path) -> None:
    """In every way that an input's sizes are."""
    source = symbolic(tmp_path / "a.onnx")
    (outputs,) = ep_nnapi.run(source, fix=fix).outputs
    assert outputs["y"].shape[0] == 7
    assert ep_nnapi.check(source, fix=fix, dynamic_shapes="off").nodes
    ep_nnapi.prepare(source, tmp_path / "b.onnx", fix=fix)
    assert {sizes[0] for sizes in shapes(tmp_path / "b.onnx").values()} == {7}


def test_run_draws_inputs_of_the_fixed_sizes(tmp_path: Path) -> None:
    (outputs,) = ep_nnapi.run(symbolic(tmp_path / "a.onnx"), fix="x=5,4;z=5,3").outputs
    assert outputs["y"].shape == (5, 3)
