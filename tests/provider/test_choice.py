"""The choice among alternatives in Python: the C plugin's, with equal bits."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.litert.library import Accelerator, CompiledModel, Compiling, Library
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.spec import CONV_2D
from ep_nnapi.provider.alternative_runs import GaveWay, open_onnx
from models.quantized import quantized
from models.zoo import MODELS, sample_inputs
from tests.end_to_end.sessions import nnapi_session
from tests.litert.needs import LITERT
from tests.native import sessions
from tests.native.alternatives import both
from tests.native.build import needs_compiler
from tests.native.sessions import prepared
from tests.native.test_choice import FEEDS, MODEL, RIGHT
from tests.nnapi.library.recorded import Shim, built
from tests.onnx_graph import parsed
from tests.preparation.test_alternatives import PARTS, contents


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return sessions.prepared(MODEL, folder, alternatives="nnapi:4,nnapi:1,cpu")


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return built(tmp_path)


def outcome(path: Path, folder: Path, **options: object) -> dict:
    """The cluster of the receipt of a session of two right runs."""
    receipt = folder / "receipt.json"
    made = nnapi_session(path, receipt=receipt, **options)
    for _ in range(2):
        np.testing.assert_allclose(made.run(None, FEEDS)[0], RIGHT, rtol=1e-4, atol=1e-5)
    del made
    gc.collect()
    (cluster,) = json.loads(receipt.read_text())["clusters"]
    receipt.unlink()
    return cluster


def test_what_works_is_chosen(path: Path, tmp_path: Path):
    found = outcome(path, tmp_path, cache_dir=tmp_path)
    assert found["alternative"] == "nnapi:1 on host-cpu"
    assert (found["runs"], found["device_runs"]) == (2, 2)
    assert found["tried"] == []
    (note,) = tmp_path.glob("ep-nnapi-*")
    assert (note.suffix, note.read_text()) == (".chosen", "nnapi:1 on host-cpu\n")


@LITERT
def test_litert_has_the_options_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found, compile_it = [], Library.compile

    def noted(library: Library, model: bytes, settings: Compiling, *more: object) -> CompiledModel:
        found.append(settings)
        return compile_it(library, model, settings, *more)

    monkeypatch.setattr(Library, "compile", noted)
    path = sessions.prepared(MODEL, tmp_path, alternatives="litert")
    given = {"intra_op_num_threads": 2, "instances": 3, "flags": "USE_FP16"}
    assert outcome(path, tmp_path, **given)["alternative"] == "litert on litert-cpu"
    assert found[-1] == Compiling(Accelerator.CPU, threads=2, half=True, instances=3)


def test_the_order_may_be_given(path: Path, tmp_path: Path):
    assert outcome(path, tmp_path, prefer="cpu,nnapi")["device"] == "cpu"
    with pytest.raises(OptionError, match="prefer has 'gpu'; give some of nnapi,litert-npu"):
        nnapi_session(path, prefer=["gpu"])
    with pytest.raises(Exception, match="no alternative of it is preferred here"):
        nnapi_session(path, prefer="litert-gpu")


@needs_compiler
@pytest.mark.parametrize("name", ["Model_finish", "Compilation_finish", "Execution_burstCompute"])
@pytest.mark.parametrize("hangs", [False, True])
def test_what_fails_or_hangs_gives_way(name: str, hangs: bool, path: Path, shim: Shim, tmp_path):
    options = {"runtime": shim.path, "cache_dir": tmp_path, "trial_timeout": 0.5 if hangs else 60}
    shim.fault(name, 0 if hangs else ResultCode.OP_FAILED, milliseconds=2500 if hangs else 0)
    found = outcome(path, tmp_path, **options)
    shim.clear()
    reason = found["tried"][0]["reason"]
    assert found["alternative"] == "cpu"
    assert ("within 0.5 s" if hangs else "OP_FAILED") in reason
    after = outcome(path, tmp_path, **options)
    if hangs:
        assert "an earlier start ended in it" in after["tried"][0]["reason"]
    else:
        assert after["tried"] == []


@needs_compiler
def test_what_declines_gives_way(path: Path, shim: Shim, tmp_path: Path):
    shim.decline(CONV_2D.code)
    shim.fault("Compilation_finish", ResultCode.BAD_DATA)  # as NNAPI has it for such a device
    found = outcome(path, tmp_path, runtime=shim.path)
    assert found["alternative"] == "cpu"
    assert "declines CONV_2D" in found["tried"][0]["reason"]


@needs_compiler
def test_a_later_failure_gives_way_unless_the_fallback_is_none(path: Path, shim: Shim):
    made = nnapi_session(path, runtime=shim.path)
    strict = nnapi_session(path, runtime=shim.path, fallback="none")
    for each in (made, strict):
        each.run(None, FEEDS)
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    np.testing.assert_allclose(made.run(None, FEEDS)[0], RIGHT, rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="OP_FAILED"):
        strict.run(None, FEEDS)
    shim.clear()


@needs_compiler
def test_the_failures_of_an_alternative_are_the_sessions(path: Path, shim: Shim):
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    found = ep_nnapi.run(path, FEEDS, runtime=shim.path)
    shim.clear()
    assert "OP_FAILED" in str(found.failures[0])


FORMS = ["float", "u8u8", "u8s8"]
SHORT = {("kws_dscnn", "u8s8"), ("mlp", "float")}
NETWORKS = [
    pytest.param(name, form, marks=() if (name, form) in SHORT else pytest.mark.long)
    for name in ("kws_dscnn", "mlp", "espcn", "squeezenet1_1", "denoiser_lstm", "detector")
    for form in FORMS
]


@needs_compiler
@pytest.mark.parametrize(("name", "form"), NETWORKS)
def test_it_is_the_choice_of_the_plugin_in_c(name: str, form: str, tmp_path: Path):
    """On every level one file runs, with equal bits, and near the CPU provider's results."""
    model = MODELS[name]() if form == "float" else quantized(name, form)
    path = sessions.prepared(model, tmp_path, alternatives="nnapi:8,nnapi:4,nnapi:1,cpu")
    feeds = sample_inputs(MODELS[name]())
    for level in (1, 3, 8):
        library = built(tmp_path, level).path
        device = {"device": sessions.REFERENCE if level >= 3 else "default"}
        both(path, feeds, tmp_path, runtime=library, **device)
    both(path, feeds, tmp_path, prefer="cpu")


@needs_compiler
def test_a_partition_computes(tmp_path: Path):
    path = sessions.prepared(parsed(PARTS), tmp_path, alternatives="nnapi:4,nnapi:1,cpu")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    both(path, {"x": x}, tmp_path, runtime=built(tmp_path, 2).path, device="default")
    b = np.maximum(np.exp(x), 0)
    result = nnapi_session(path, feature_level=1).run(None, {"x": x})[0]
    np.testing.assert_allclose(result, b + np.exp(b), rtol=1e-5)


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def test_nodes_run_on_the_cpu_provider(tmp_path: Path):
    path = prepared(parsed(PARTS), tmp_path, alternatives="nnapi:3,cpu", embed=True)
    (content,) = contents(path)
    run = open_onnx(content.alternatives[-1], content.weights)(["x"], ["y"])
    results: dict[int, np.ndarray] = {}

    def allocate(index: int, shape: tuple[int, ...]) -> np.ndarray:
        return results.setdefault(index, np.empty(shape, np.float32))

    run([X], allocate, lambda: None)
    b = np.maximum(np.exp(X), 0)
    np.testing.assert_allclose(results[0], b + np.exp(b), rtol=1e-5)
    with pytest.raises(GaveWay, match="ONNX Runtime: "):
        run([X.astype(np.float64)], allocate, lambda: None)
