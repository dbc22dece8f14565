"""nnapi-aware: what a session claims is kept, and the rest is what ONNX Runtime makes of it."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.preparation.job import Job, job_of
from ep_nnapi.preparation.ort_export import save_onnx, save_ort
from ep_nnapi.sessions.cpu import exact_options, session_of
from models import zoo
from tests.onnx_graph import parsed
from tests.preparation.fresh import CPU
from tests.preparation.test_pipeline import SIZES

DIGITS = Path(zoo.__file__).parent / "digits.onnx"


def kept(path: Path, **options: object) -> set[str]:
    return {n for c in ep_nnapi.check(path, **options).clusters for n in c.nodes}


def ops_of(path: Path, folder: Path) -> dict[str, str]:
    """Operators by node name in an .ort file, as plain ONNX Runtime reads it."""
    chosen = exact_options()
    chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    chosen.optimized_model_filepath = str(folder / "seen.onnx")
    chosen.add_session_config_entry("session.save_model_format", "ONNX")
    session_of(str(path), chosen)
    every = graphs(onnx.load(folder / "seen.onnx").graph)
    return {n.name: n.op_type for graph in every for n in graph.node}


def basic_ops(source: Path, folder: Path) -> dict[str, str]:
    """Operators by node name as GetCapability sees them."""
    save_ort(source, folder / "basic.ort", job_of({"optimization_level": "basic"}))
    return ops_of(folder / "basic.ort", folder)


def still_there(options: dict[str, object], ops: dict[str, str]) -> dict[str, object]:
    """The options without names in `exclude` that were fused away: they would be unknown."""
    names = str(options.get("exclude", "")).split(",")
    return {**options, "exclude": ",".join(n for n in names if n in {*ops, *ops.values()})}


def keeps_what_is_claimed(source: Path, folder: Path, **options: object) -> dict[str, str]:
    """The .ort file has each claimed node unchanged; they and no others are claimed again."""
    save_ort(source, folder / "aware.ort", job_of(options))
    claimed, ops = kept(source, **options), ops_of(folder / "aware.ort", folder)
    assert claimed == kept(folder / "aware.ort", **still_there(options, ops))
    before = basic_ops(source, folder)
    assert {n: ops[n] for n in claimed} == {n: before[n] for n in claimed}
    return ops


def fuses_the_rest(source: Path, folder: Path) -> None:
    """With nothing claimed it is what ONNX Runtime makes at level extended, node by node."""
    types = ",".join(sorted(set(basic_ops(source, folder).values())))
    save_ort(source, folder / "aware.ort", job_of({"exclude": types}))
    ops = ops_of(folder / "aware.ort", folder)
    save_ort(source, folder / "extended.ort", job_of({"optimization_level": "extended"}))
    assert Counter(ops.values()) == Counter(ops_of(folder / "extended.ort", folder).values())


@pytest.mark.parametrize("exclude", ["", "MaxPool", "Relu"])
def test_what_a_session_claims_is_kept(exclude: str, tmp_path: Path) -> None:
    options = {"exclude": exclude} if exclude else {}
    assert "FusedConv" not in keeps_what_is_claimed(DIGITS, tmp_path, **options).values()


def test_what_is_left_is_fused(tmp_path: Path) -> None:
    ops = keeps_what_is_claimed(DIGITS, tmp_path, exclude="Conv_1,Relu_3")
    assert Counter(ops.values())["FusedConv"] == 1
    assert "Conv_5" in ops
    fuses_the_rest(DIGITS, tmp_path)


def test_the_two_formats_have_the_same_nodes(tmp_path: Path) -> None:
    job: Job = job_of({"exclude": "Conv_1,Relu_3", "format": "onnx"})
    save_onnx(DIGITS, tmp_path / "a.onnx", job)
    seen = {n.name: n.op_type for n in onnx.load(tmp_path / "a.onnx").graph.node}
    assert seen == keeps_what_is_claimed(DIGITS, tmp_path, exclude="Conv_1,Relu_3")


def attention(folder: Path) -> Path:
    """Whose products and sums ONNX Runtime fuses into Gemm, whoever claims them."""
    path = folder / "encoder.onnx"
    onnx.save(zoo.MODELS["transformer_encoder"](), path)
    return path


def test_attention_that_a_session_claims_is_kept(tmp_path: Path) -> None:
    ops = keeps_what_is_claimed(attention(tmp_path), tmp_path)
    assert ops["MatMul_10"] == "MatMul"


def test_attention_that_is_left_is_fused(tmp_path: Path) -> None:
    """One product of eight, with its sum, is not for NNAPI; the next one is."""
    source, excluded = attention(tmp_path), {"exclude": "MatMul_10,Add_11"}
    save_ort(source, tmp_path / "aware.ort", job_of(excluded))
    ops = ops_of(tmp_path / "aware.ort", tmp_path)
    assert kept(source, **excluded) <= ops.keys()
    assert ops["MatMul_10/MatMulAddFusion"] == "Gemm"
    assert ops["MatMul_14"] == "MatMul"


def test_attention_kept_computes_the_same_in_plain_onnxruntime(tmp_path: Path) -> None:
    source = attention(tmp_path)
    (made,) = ep_nnapi.prepare(source, tmp_path / "out").models
    assert made.worst is not None
    assert made.worst <= TOLERANCES[OutputKind.FLOAT32]
    outputs = {o.name for o in onnxruntime.InferenceSession(str(source)).get_outputs()}
    saved = session_of(str(tmp_path / "out" / made.output))
    assert {o.name for o in saved.get_outputs()} == outputs


def choosing(folder: Path) -> Path:
    """Products and sums between normalizations, as attention has them, in a branch of If."""
    square, row = np.eye(4, dtype=np.float32), np.arange(4, dtype=np.float32)
    constants = {"row": row} | {f"w{i}": square * k for k, i in enumerate("abco", start=1)}
    paths = "".join(f"[m{i}] m{i} = MatMul (n, w{i}) [p{i}] p{i} = Add (m{i}, row) " for i in "abc")
    text = f"""(bool c, float[1,2,4] x) => (float[1,2,4] y) {{ [chosen] y = If (c) <
        then_branch = then () => (float[1,2,4] s) {{
            [n] n = LayerNormalization (x, row) {paths}
            [mo] mo = MatMul (pa, wo) [o] o = Add (mo, row) [r] r = Add (o, n)
            [s] s = Sum (r, pb, pc) }},
        else_branch = else () => (float[1,2,4] e) {{ [e] e = Neg (x) }}> }}"""
    path = folder / "choosing.onnx"
    onnx.save(parsed(text, **constants), path)
    return path


def test_attention_in_an_inner_graph_is_kept_and_fused(tmp_path: Path) -> None:
    ops = keeps_what_is_claimed(choosing(tmp_path), tmp_path)
    assert ops["ma"] == ops["mb"] == ops["mc"] == ops["mo"] == "MatMul"
    assert not [name for name in ops if "reader" in name]
    fuses_the_rest(choosing(tmp_path), tmp_path)


def product(folder: Path) -> Path:
    """A product of integers that were quantized as they came, scaled and summed."""
    text = """(float[2,4] x) => (float[2,4] y) {
        [quantize] q, s, z = DynamicQuantizeLinear (x) [product] p = MatMulInteger (q, w, z)
        [cast] f = Cast <to = 1> (p) [scales] ss = Mul (s, ws) [scaled] m = Mul (f, ss)
        [sum] y = Add (m, b) }"""
    weights = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    model = parsed(text, w=weights, ws=np.float32(0.1), b=np.arange(4, dtype=np.float32))
    onnx.save(model, folder / "product.onnx")
    return folder / "product.onnx"


@pytest.mark.parametrize(
    ("exclude", "fused"),
    [
        ("", set()),
        ("Mul", set()),
        ("DynamicQuantizeLinear,MatMulInteger,Cast,Mul", {"DynamicQuantizeMatMul"}),
        ("DynamicQuantizeLinear,Cast,Mul,Add", set()),  # whose product has the fused one's name
    ],
)
def test_a_product_of_integers_is_kept(exclude: str, fused: set[str], tmp_path: Path) -> None:
    ops = keeps_what_is_claimed(product(tmp_path), tmp_path, exclude=exclude)
    assert set(ops.values()) - set(basic_ops(product(tmp_path), tmp_path).values()) == fused


@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
def test_models_with_inner_graphs_are_prepared(form: str, tmp_path: Path) -> None:
    """Models written from an .ort file lack names of subgraphs, which loading needs."""
    (made,) = ep_nnapi.prepare(choosing(tmp_path), tmp_path / "out", format=form).models
    assert made.worst is not None
    assert made.worst <= TOLERANCES[OutputKind.FLOAT32]


def test_a_quantized_convolution_that_is_left_is_laid_out(tmp_path: Path) -> None:
    """Level all would do so at load, and end with "Argument mismatch when removing edge"."""
    source, options = tmp_path / "digits.onnx", {"exclude": "Conv_5"}
    onnx.save(zoo.quantized("digits", "u8u8"), source)
    (made,) = ep_nnapi.prepare(source, tmp_path / "out", **options).models
    assert made.error is None
    saved = tmp_path / "out" / made.output
    found = ops_of(saved, tmp_path)
    ops = Counter(found.values())
    assert (ops["QLinearConv"], ops["Transpose"]) == (1, 2)
    assert kept(source, **options) <= kept(saved, **still_there(options, found))
    session = onnxruntime.InferenceSession(
        str(saved), providers=[("NnapiPluginExecutionProvider", options), *CPU]
    )
    image = {"image": np.zeros((1, 1, 8, 8), np.float32)}
    plain = session_of(str(source))
    np.testing.assert_array_equal(session.run(None, image)[0], plain.run(None, image)[0])


# Their nodes are others by the time they are kept: functions are inlined.
RENAMED = {"mobilenet_v3_large", "segmentation"}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(zoo.MODELS.keys() - RENAMED))
def test_the_zoo_is_kept_and_fused(name: str, tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    onnx.save(zoo.MODELS[name](size=SIZES.get(name)), source)
    for target in ("ep-nnapi", "builtin-nnapi"):
        keeps_what_is_claimed(source, tmp_path, target=target)
    fuses_the_rest(source, tmp_path)
