"""Text encoders in float16: the CPU provider lacks kernels of that type for most of their nodes."""

from pathlib import Path

import onnx
import pytest
from onnxruntime.transformers.float16 import convert_float_to_float16

import ep_nnapi
from models import zoo
from models.builder import Graph
from models.layers import linear
from models.text import WIDTH, attention, layer_norm

SIZES = (1, 8)
HALVES = 4e-3  # tens of roundings to float16 that either side makes in another place


def encoder(path: Path, dynamic: tuple[str, ...] = ()) -> Path:
    """The zoo's text encoder, its floats converted to float16."""
    model = zoo.MODELS["transformer_encoder"](size=SIZES[1], dynamic=dynamic)
    onnx.save(convert_float_to_float16(model), path)
    return path


def block(path: Path) -> Path:
    """One block of the encoder, on what is embedded already, behind two layers, in float16.

    ONNX Runtime fuses those layers to Gemm at its basic level, attention's at the extended one, and
    gives the constants that it makes for them the same names.
    """
    g = Graph("block")
    x, shut = g.input("x", (*SIZES, WIDTH)), g.input("shut", (1, 1, *SIZES))
    for _ in range(2):
        x = g.add("Tanh", linear(g, x, WIDTH))
    x = layer_norm(g, x)
    x = g.add("Add", linear(g, attention(g, x, shut), WIDTH), x)
    g.output(layer_norm(g, x), "y")
    onnx.save(convert_float_to_float16(g.model()), path)
    return path


@pytest.mark.parametrize(
    "form", ["ort", *(pytest.param(f, marks=pytest.mark.long) for f in ("onnx", "context"))]
)
def test_attention_in_float16_is_prepared(form: str, tmp_path: Path):
    source = block(tmp_path / "a.onnx")
    done = ep_nnapi.prepare(source, tmp_path / "out", format=form, tolerance=HALVES)
    (found,) = done.models
    assert found.error is None
    report = ep_nnapi.check(tmp_path / "out" / found.output)
    assert len(report.clusters) == 1
    assert not report.rejections


@pytest.mark.long
@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "known"])
def test_an_encoder_in_float16_is_prepared(form: str, fixed: bool, tmp_path: Path):
    """Symbolic sizes fixed, or sizes known from the start; both at the default level."""
    source = encoder(tmp_path / "a.onnx", ("batch", "size") if fixed else ())
    names = [i.name for i in onnx.load(source).graph.input]
    fix = dict.fromkeys(names, SIZES) if fixed else {}
    done = ep_nnapi.prepare(source, tmp_path / "out", format=form, fix=fix, tolerance=HALVES)
    (found,) = done.models
    assert found.error is None
    report = ep_nnapi.check(tmp_path / "out" / found.output)
    mask = {"Unsqueeze", "Cast"}  # of int64, which files take no part of: nothing in float16 stays
    assert sum(not mask.issuperset(c.op_types) for c in report.clusters) == 1
    assert mask.issuperset(r.op_type for r in report.rejections)
