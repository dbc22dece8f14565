"""Sessions on the CPU provider with exact integer products."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime_extensions import get_library_path

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.sessions.cpu import CPU, session_of, with_external_weights
from tests.onnx_graph import model_of, parsed, serialized
from tests.preparation.test_ort_export import products
from tests.provider.test_planner import CHAIN, SHAPE


def test_a_session_is_on_the_cpu_provider():
    session = session_of(CHAIN.SerializeToString())
    assert session.get_providers() == [CPU]
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_allclose(
        session.run(None, {"x": x})[0], np.tanh(np.exp(-x)), rtol=1e-6
    )  # exp and tanh


def product(weights: type[np.generic]) -> bytes:
    """MatMulInteger of 255 and constant 127, 64 times: 2,072,640, beyond a pair of 16 bits."""
    text = "(uint8[1,64] x) => (int32[1,1] y) { y = MatMulInteger (x, w) }"
    return bytes(serialized(text, w=np.full((64, 1), 127, weights)))


def test_products_of_constant_weights_do_not_saturate():
    for weights in (np.int8, np.uint8):
        (found,) = session_of(product(weights)).run(None, {"x": np.full((1, 64), 255, np.uint8)})
        assert found.tolist() == [[64 * 255 * 127]]


def test_nodes_that_onnx_runtime_fused_before_are_loaded(tmp_path: Path):
    """With constants of these names, its fusion of MatMul and Add gives a name twice and fails."""
    fused = products(tmp_path / "a.onnx", "gemm_input_shape", "gemm_output_shape_token_3")
    others = products(tmp_path / "b.onnx", "one", "two")
    x = np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)
    got, want = (session_of(str(path)).run(None, {"x": x})[0] for path in (fused, others))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)  # another order of float32 sums


# The last inputs of a model become external initializers

ADDED = serialized("(float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }")


def test_weights_are_initializers_without_data():
    changed = onnx.load_from_string(with_external_weights(ADDED, {"w": np.ones(2, np.float32)}))
    assert [value.name for value in changed.graph.input] == ["x"]
    (weights,) = changed.graph.initializer
    assert (weights.name, list(weights.dims), weights.raw_data) == ("w", [2], b"")
    assert weights.data_location == onnx.TensorProto.EXTERNAL


def test_a_model_without_weights_stays():
    assert with_external_weights(ADDED, {}) is ADDED


LIBRARY = get_library_path()
DOMAIN = "ai.onnx.contrib"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Relu, then the negative and the positive part by a custom operator, then their sum."""
    text = f"""(float[2,3] x) => (float[2,3] y) {{ [relu] a = Relu (x)
        [split] p, q = {DOMAIN}.NegPos (a) [add] y = Add (p, q) }}"""
    path = str(tmp_path / "model.onnx")
    onnx.save(parsed(text, 21, 8, {DOMAIN: 1}), path)
    return path


def test_custom_operators_stay_on_the_cpu(model: str):
    report = ep_nnapi.check(model, custom_ops_library=LIBRARY)
    assert "relu" in {name for c in report.clusters for name in c.nodes}
    assert "split" in {r.node for r in report.rejections}


@pytest.fixture
def image_model(tmp_path: Path) -> Path:
    """DecodeImage ends the process for bytes that are no image: libjpeg calls exit."""
    domain, path = "com.microsoft.extensions", tmp_path / "image.onnx"
    text = f"[decode] pixels = {domain}.DecodeImage (x) [cast] y = Cast <to = 1> (pixels)"
    x = {"x": (np.uint8, (100,))}
    onnx.save(model_of(text, x, {"y": None}, opset=21, domains={domain: 1}), path)
    return path


@pytest.mark.parametrize(
    ("verb", "code", "said"),
    [
        (["check"], 0, "1 more follows from this one"),
        (["run"], 2, "DecodeImage of domain com.microsoft.extensions may end the process"),
        (["compare"], 2, "give inputs with --input"),
        (["tune"], 2, "give inputs with --input"),
        (["report", "-o", "page.html", "--measure"], 2, "leave out --measure"),
        (["prepare", "-o", "out"], 2, "the model ended its worker process (Not a JPEG file"),
    ],
)
def test_no_custom_operator_ends_the_process_for_made_up_contents(verb, code, said, image_model):
    command = [sys.executable, "-m", "ep_nnapi", *verb, image_model]
    command += ["--custom-ops-library", LIBRARY]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=image_model.parent
    )
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert done.stderr.count("\n") == (code != 0)


def test_a_model_with_custom_operators_runs(model: str):
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    (outputs,) = ep_nnapi.run(model, x, custom_ops_library=Path(LIBRARY)).outputs
    np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))


@pytest.mark.parametrize("level", ["basic", "nnapi-aware"])
def test_a_model_with_custom_operators_is_prepared(model: str, level: str, tmp_path: Path):
    """And verified, which runs both it and the original."""
    options = {"custom_ops_library": LIBRARY, "optimization_level": level}
    done = ep_nnapi.prepare(model, tmp_path / "out", **options)
    assert not done.failed
    assert ep_nnapi.check(tmp_path / "out" / "model.ort", custom_ops_library=LIBRARY).taken


@pytest.mark.parametrize("verb", ["check", "run", "compare", "prepare", "listing"])
def test_the_library_on_the_command_line(verb: str, model: str, tmp_path: Path):
    out = ["-o", str(tmp_path / "out")] if verb == "prepare" else []
    if verb in ("run", "compare"):
        np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
        out = ["--input", str(tmp_path / "x.npy")]
    assert main([verb, model, *out, "--custom-ops-library", LIBRARY]) == 0


@pytest.mark.parametrize("verb", ["check", "run", "prepare"])
def test_an_unknown_domain_is_said_to_be(verb: str, model: str, tmp_path, capsys):
    out = ["-o", str(tmp_path / "out")] if verb == "prepare" else []
    assert main([verb, model, *out]) == 2
    printed = capsys.readouterr().err
    assert f"operator NegPos is of domain {DOMAIN}, which is not ONNX Runtime's own" in printed
    assert "--custom-ops-library FILE" in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["nowhere.so", "model.onnx"])
def test_a_library_that_is_none(name: str, model: str, tmp_path: Path):
    with pytest.raises(
        ep_nnapi.OptionError, match=r"custom_ops_library cannot be used: Failed to load library"
    ):
        ep_nnapi.check(model, custom_ops_library=tmp_path / name)


def test_it_is_no_option_of_a_session_of_ones_own():
    options = onnxruntime.SessionOptions()
    with pytest.raises(ep_nnapi.OptionError, match=r"SessionOptions\.register_custom_ops"):
        ep_nnapi.append_execution_provider(options, custom_ops_library=LIBRARY)


def test_the_library_is_of_one_call_only(model: str):
    ep_nnapi.check(model, custom_ops_library=LIBRARY)
    with pytest.raises(ep_nnapi.ModelError, match="NegPos"):
        ep_nnapi.check(model)
