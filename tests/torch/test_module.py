"""`NnapiModule.save` and `ep_nnapi.torch.load`."""

import copy
import io
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest

from tests.litert.needs import LITERT
from tests.programs import Done, python, ran

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

import ep_nnapi  # noqa: E402
from ep_nnapi import ModelError, NnapiError, OptionError  # noqa: E402
from ep_nnapi.torch import NnapiModule, load, to_nnapi  # noqa: E402
from tests.torch.networks import IMAGE, Nested, agrees, seeded, small_cnn  # noqa: E402

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cnn() -> NnapiModule:
    torch.manual_seed(0)
    return to_nnapi(small_cnn(), (seeded(*IMAGE),))


@pytest.mark.parametrize(
    ("form", "name"), [("context", "net.onnx"), ("onnx", "net.onnx"), ("ort", "net.ort")]
)
def test_a_saved_module_computes_the_same(tmp_path: Path, cnn: NnapiModule, form: str, name: str):
    cnn.save(tmp_path / name, format=form)
    loaded = load(tmp_path / name)
    agrees(loaded(seeded(*IMAGE, seed=3)), cnn(seeded(*IMAGE, seed=3)))
    assert loaded.report.taken == loaded.report.nodes


def test_weights_are_beside_a_compiled_model_and_a_session_runs_it(tmp_path, cnn: NnapiModule):
    cnn.save(tmp_path / "net.onnx")
    assert list(tmp_path.glob("net.*.weights"))
    options = onnxruntime.SessionOptions()
    ep_nnapi.append_execution_provider(options)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options)
    (scores,) = session.run(None, {"input": seeded(*IMAGE).numpy()})
    agrees(torch.from_numpy(scores), cnn(seeded(*IMAGE)))


@LITERT
@pytest.mark.parametrize(
    ("alternatives", "computes"), [(None, None), ("litert,cpu", "litert on litert-cpu")]
)
def test_litert_computes_what_is_saved(alternatives: str | None, computes: str | None, tmp_path):
    """By the same option; as an alternative it is a .tflite, which the C plugin runs too."""
    receipt, x = tmp_path / "receipt.json", seeded(*IMAGE)
    module = to_nnapi(small_cnn(), (x,), runtime="litert")
    module.save(tmp_path / "net.onnx", alternatives=alternatives)
    loaded = load(tmp_path / "net.onnx", runtime="litert", receipt=receipt)
    agrees(loaded(x), module(x))
    del loaded
    clusters = json.loads(receipt.read_text())["clusters"]
    assert [(c["device"], c.get("alternative")) for c in clusters] == [("litert-cpu", computes)]
    assert [(c["runs"], c["device_runs"]) for c in clusters] == [(1, 1)]


def test_nested_structures_are_saved(tmp_path: Path):
    inputs = {"x": seeded(3, 4), "scale": 2, "given": {"a": [seeded(4)]}}
    module = Nested().eval()
    to_nnapi(module, inputs).save(tmp_path / "net.onnx")
    with torch.no_grad():
        agrees(load(tmp_path / "net.onnx")(**inputs), module(**inputs))


def program(tmp_path: Path, body: str) -> Done:
    """A process of its own, that loads the module and runs `body`."""
    code = (
        "import sys, torch, ep_nnapi.torch\n"
        f"net = ep_nnapi.torch.load({str(tmp_path / 'net.onnx')!r})\n{body}"
    )
    return ran(sys.executable, "-W", "ignore", "-c", code, status=None, timeout=120)


def test_loading_needs_no_exporter(tmp_path: Path, cnn: NnapiModule):
    cnn.save(tmp_path / "net.onnx")
    body = "print(tuple(net(torch.ones(1, 3, 8, 8)).shape), 'onnxscript' in sys.modules)"
    done = program(tmp_path, body)
    assert (done.stdout, done.stderr) == ("(1, 2) False\n", "")


def test_a_dataclass_that_is_not_known_where_it_is_loaded(tmp_path: Path):
    inputs = {"x": seeded(3, 4), "scale": 2, "given": {"a": [seeded(4)]}}
    to_nnapi(Nested().eval(), inputs).save(tmp_path / "net.onnx")
    said = program(tmp_path, "").stderr
    assert "tests.torch.networks.Pair" in said
    assert "register_dataclass" in said


def test_what_cannot_be_saved_or_loaded(tmp_path: Path, cnn: NnapiModule):
    with pytest.raises(ModelError, match=r"no module that NnapiModule\.save"):
        load(ROOT / "models" / "digits.onnx")
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path / "net.onnx")
    with pytest.raises(OptionError, match="format context"):
        cnn.save(tmp_path / "net.ort")
    cnn.save(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="copy that file"):
        load(tmp_path / "net.onnx").save(tmp_path / "again.onnx")
    with pytest.raises(OptionError, match="feature_level"):
        load(tmp_path / "net.onnx", feature_level=0)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_computes_the_same_and_can_be_saved(tmp_path, cnn, duplicate):
    network = nn.Sequential(cnn, nn.Softmax(1)).eval()
    copied = duplicate(network)
    agrees(copied(seeded(*IMAGE)), network(seeded(*IMAGE)))
    again = duplicate(cnn)
    assert again is not cnn
    assert not duplicate(cnn.eval()).training
    again.save(tmp_path / "net.onnx")
    agrees(duplicate(load(tmp_path / "net.onnx"))(seeded(*IMAGE)), cnn(seeded(*IMAGE)))


@pytest.mark.parametrize("write", [pickle.dumps, lambda module: torch.save(module, io.BytesIO())])
def test_pickling_is_refused_with_the_way_out(cnn: NnapiModule, write: Callable[..., object]):
    with pytest.raises(NnapiError, match=r"cannot be pickled; its save\(path\) writes a file"):
        write(cnn)


def test_dynamic_sizes_are_saved_as_an_onnx_model(tmp_path: Path):
    """A compiled model has fixed sizes."""
    module, image = small_cnn(), seeded(2, *IMAGE[1:])
    converted = to_nnapi(module, image, dynamic_shapes=({0: torch.export.Dim("batch")},))
    with pytest.raises(ModelError, match="choose another format"):
        converted.save(tmp_path / "net.onnx")
    converted.save(tmp_path / "net.onnx", format="onnx")
    batch = seeded(5, *IMAGE[1:])
    with torch.no_grad():
        agrees(load(tmp_path / "net.onnx")(batch), module(batch))


def test_repr_says_what_nnapi_takes(cnn: NnapiModule):
    assert repr(cnn).startswith("NnapiModule(NNAPI takes ")


def test_the_package_alone_does_not_import_pytorch():
    code = "import sys, ep_nnapi, ep_nnapi.cli.main; ep_nnapi.check; print('torch' in sys.modules)"
    done = python(code)
    assert done.stdout == "False\n"
