"""Alternatives of clusters: which there are, what they share, and how options are read."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.diagnostics.inspect_context import containers
from ep_nnapi.epcontext.alternatives import Alternative, everything
from ep_nnapi.epcontext.container import ContainerContent, unpack
from ep_nnapi.epcontext.layout import EP_SOURCE, FORMAT_VERSION, AlternativeKind
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.preparation.job import job_of
from ep_nnapi.provider.load_epcontext import parse
from models.quantized import quantized
from models.zoo import MODELS
from tests.native.sessions import EP_NAME, prepared
from tests.onnx_graph import parsed

PARTS = "(float[2,3] x) => (float[2,3] y) { a = Exp (x) b = Relu (a) c = Exp (b) y = Add (b, c) }"
"""Exp is an operation of level 3: below it, the cluster is a partition."""


def contents(path: Path) -> list[ContainerContent]:
    return [unpack(data, path.parent, 8) for _, data in containers(onnx.load(path))]


def made(proto: onnx.ModelProto, folder: Path, alternatives: str) -> tuple[Alternative, ...]:
    path = prepared(proto, folder, alternatives=alternatives, embed=True)
    (content,) = contents(path)
    return content.alternatives


def names(found: tuple[Alternative, ...]) -> list[str]:
    return [a.name for a in found]


def test_levels_of_one_program_have_one_alternative(tmp_path: Path):
    found = made(MODELS["mlp"](), tmp_path, "nnapi:1,nnapi:4,cpu")
    assert names(found) == ["nnapi:1", "cpu"]
    found = made(quantized("mlp", "s8s8"), tmp_path / "int8", "nnapi:1,nnapi:4,cpu")
    assert names(found) == ["nnapi:4", "nnapi:1", "cpu"]  # whose tensors are uint8


def test_a_lower_level_may_be_a_partition(tmp_path: Path):
    whole, parted, cpu = made(parsed(PARTS), tmp_path, "nnapi:4,nnapi:1,cpu")
    assert (whole.name, parted.name, cpu.name) == ("nnapi:3", "nnapi:1", "cpu")
    kinds = [part.kind for part in parted.parts]
    assert kinds == [AlternativeKind.ONNX, AlternativeKind.NNAPI] * 2
    assert parted.border == cpu.border


QUICK = ("mlp", "kws_dscnn", "vgg_small")
DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mlp", "u8u8"),
        ("digits", "float"),
        *((name, "float") for name in QUICK),
        *(pytest.param(n, "float", marks=pytest.mark.long) for n in MODELS if n not in QUICK),
    ],
)
def test_weights_stand_once(name: str, form: str, tmp_path: Path):
    """Beside them the other alternatives, LiteRT's too if it is there, take 3 % and 1 KB."""
    if name == "digits":
        model = onnx.load(DIGITS)
    else:
        model = MODELS[name]() if form == "float" else quantized(name, form)
    sizes = []
    for folder, chosen in (("one", ()), ("all", "auto")):
        path = prepared(model, tmp_path / folder, alternatives=chosen)
        sizes.append(sum(p.stat().st_size for p in path.parent.iterdir()))
    assert sizes[1] - sizes[0] <= sizes[0] * 0.03 + 1024


def test_nodes_whose_constants_a_level_would_have_for_itself_are_onnx_nodes(tmp_path: Path):
    """Below level 3 there is no dilation: the filter would have zeros between its elements."""
    text = (
        "(float[1,8,16,16] x) => (float[1,8,14,14] z) "
        "{ y = Conv <dilations=[2,2], pads=[1,1,1,1]> (x, w) z = Conv <pads=[1,1,1,1]> (y, v) }"
    )
    model, rng = parsed(text), np.random.default_rng(0)
    for name in "wv":
        value = rng.normal(size=(8, 8, 3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    whole, parted = made(model, tmp_path, "nnapi:4,nnapi:2")
    assert whole.model is not None
    assert [part.kind.name for part in parted.parts] == ["ONNX", "NNAPI"]


def test_the_nodes_compute_what_the_model_does(tmp_path: Path):
    """Also from constants that NNAPI has in another order."""
    content = _computes(MODELS["kws_dscnn"](), tmp_path)
    assert sum(bool(each.linked) for each in everything(content.alternatives)) == 1


def test_the_nodes_have_sparse_constants(tmp_path: Path):
    model = parsed("(float[2,4] x) => (float[2,3] y) { p = MatMul (x, w) y = Relu (p) }")
    values = onnx.numpy_helper.from_array(np.array([1, -2, 3], np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([1, 6, 11]))
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, (4, 3)))
    _computes(model, tmp_path)


def _computes(model: onnx.ModelProto, folder: Path) -> ContainerContent:
    """Checks the results of the alternative of ONNX nodes; returns the content of the container."""
    (content,) = contents(prepared(model, folder, alternatives="nnapi:4,cpu"))
    cpu = content.alternatives[-1]
    options = onnxruntime.SessionOptions()
    weights = bytes(content.weights)
    options.add_external_initializers_from_files_in_memory(["weights"], [weights], [len(weights)])
    session = onnxruntime.InferenceSession(bytes(cpu.data), options)
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    (given,) = plain.get_inputs()
    x = np.random.default_rng(1).normal(size=given.shape).astype(np.float32)
    results = [s.run(None, {given.name: x})[0] for s in (session, plain)]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)  # fused by other passes
    return content


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"alternatives": "nnapi:9"}, "alternatives has nnapi:9; give some of nnapi:1 to nnapi:8"),
        ({"alternatives": "gpu,cpu"}, "alternatives has gpu; give some of"),
        ({"alternatives": "nnapi:4", "feature_level": 3}, "the highest of alternatives is nnapi:4"),
    ],
)
def test_bad_alternatives_are_said(given: dict[str, object], says: str, tmp_path: Path):
    with pytest.raises(OptionError, match=says):
        prepared(parsed(PARTS), tmp_path, **given)


def test_other_formats_have_none():
    with pytest.raises(OptionError, match="alternatives is for format context only, not onnx"):
        job_of({"format": "onnx", "alternatives": "cpu"})
    assert job_of(job_of({"format": "context", "alternatives": "nnapi:1,cpu"}).to_json())


def test_the_model_says_for_whom_it_is(tmp_path: Path):
    """A phone of a lower level than the division's, or without NNAPI, can run it."""
    path = prepared(parsed(PARTS), tmp_path, alternatives="nnapi:4,nnapi:1,cpu")
    metadata = {e.key: e.value for e in onnx.load(path, None, False).metadata_props}
    names = ("nnapi:3", "nnapi:1", "cpu")
    found = parse(metadata[f"ep_compatibility_info.{EP_SOURCE}"])
    assert found is not None
    assert (found.needed, found.alternatives) == (0, names)
    said = f"format={FORMAT_VERSION} feature_level=0 alternatives={','.join(names)}"
    assert metadata[f"ep_compatibility_info.{EP_NAME}"] == said


def test_the_gates_of_an_lstm_stand_once(tmp_path: Path):
    """Level 4 has an operand for each gate, lower ones and the CPU one for all."""
    model = MODELS["denoiser_lstm"](size=4)
    (one,), (all_of_it,) = (
        contents(prepared(model, tmp_path / name, **options))
        for name, options in (("one", {}), ("all", {"alternatives": "nnapi:4,nnapi:3,cpu"}))
    )
    assert all_of_it.weights.size < 1.03 * one.weights.size
