"""Models of compiled clusters on the command line: what is inside, and what they compute."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics.inspect_context import Phone, contents, phones, takers
from ep_nnapi.provider.virtual_devices import FOLDER_VARIABLE, level_devices, profile_paths
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FaultyDevice, installed
from tests.html_report.models import embedded
from tests.onnx_graph import model_of, nodes_of, parsed

DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
SAMPLES = DIGITS.parent / "digits" / "samples.npz"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits in two clusters, their weights beside them."""
    out = tmp_path_factory.mktemp("compiled")
    given = {"format": "context", "exclude": "Conv_5", "verify": False}
    (made,) = ep_nnapi.prepare(DIGITS, out, **given).models
    return out / made.output


def test_contents_are_what_was_compiled(compiled: Path) -> None:
    first, second = contents(compiled)
    assert (first.name, second.name) == ("nnapi_0", "nnapi_1")
    assert first.nodes == ("Conv_1", "Relu_3", "MaxPool_4")
    assert second.nodes[-1] == "MatMul_10/MatMulAddFusion"
    assert first.inputs == ("image FLOAT [1, 1, 8, 8]",)
    assert second.outputs == ("scores FLOAT [1, 10]",)
    (weights,) = compiled.parent.glob("*.weights")
    assert first.file == second.file == weights.name
    assert first.weights + second.weights == weights.stat().st_size


def test_nodes_that_left_no_operation_are_listed_too(tmp_path: Path) -> None:
    """Two transposes that cancel each other; of an earlier version, only the rest is known."""
    text = """a = Relu(x)
    b = Transpose <perm = [1, 0]> (a)
    c = Transpose <perm = [1, 0]> (b)
    y = Exp(c)"""
    nodes = nodes_of(text)
    for node in nodes:
        node.name = f"{node.op_type}_{node.output[0]}"
    onnx.save(model_of(nodes, {"x": (2, 3)}, {"y": None}), tmp_path / "m.onnx")
    given = {"format": "context", "verify": False, "optimization_level": "disable"}
    (made,) = ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / "out", **given).models
    path = tmp_path / "out" / made.output
    (found,) = contents(path)
    assert found.nodes == tuple(node.name for node in nodes)
    assert found.operations < len(nodes)
    proto = onnx.load(path)
    (context,) = proto.graph.node
    context.attribute.remove(next(a for a in context.attribute if a.name == "notes"))
    onnx.save(proto, tmp_path / "out" / "earlier.onnx")
    (found,) = contents(tmp_path / "out" / "earlier.onnx")
    assert found.nodes == (nodes[0].name, nodes[-1].name)


def test_other_models_have_none(tmp_path: Path) -> None:
    assert contents(DIGITS) == ()
    assert contents(DIGITS.read_bytes()) == ()
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert contents(tmp_path / "empty.onnx") == ()
    assert contents(tmp_path / "missing.onnx") == ()
    (tmp_path / "a.ort").write_bytes(b"....ORTM EPContext")
    assert contents(tmp_path / "a.ort") == ()


def test_bytes_are_read_as_well(tmp_path: Path) -> None:
    given = {"format": "context", "embed": True, "verify": False}
    (made,) = ep_nnapi.prepare(DIGITS, tmp_path, **given).models
    (found,) = contents((tmp_path / made.output).read_bytes())
    assert found.file is None
    assert len(found.nodes) == 8


def test_check_says_what_is_inside(shows, compiled: Path) -> None:
    printed = shows("check", compiled)
    assert "Compiled ahead of time:\nnode" in printed
    assert "Conv_1; Relu_3; MaxPool_4" in printed
    found = json.loads(shows("check", compiled, "--json"))
    assert [c["name"] for c in found["contexts"]] == ["nnapi_0", "nnapi_1"]
    assert "contexts" not in json.loads(shows("check", DIGITS, "--json"))


def test_run_computes_and_says_that_nothing_is_compared(shows, compiled: Path):
    printed = shows("run", compiled, "--input", SAMPLES)
    assert "Not compared: the CPU provider cannot run clusters compiled" in printed
    assert "19 of 20 right" in printed
    found, original = (ep_nnapi.run(p, [str(SAMPLES)]) for p in (compiled, DIGITS))
    assert (found.against, original.against) == (None, "the CPU")
    for got, want in zip(found.outputs, original.outputs, strict=True):
        np.testing.assert_allclose(got["scores"], want["scores"], atol=1e-4)  # scores up to 19


def test_another_device_is_compared_with_the_reference(shows, compiled: Path, capfd):
    with installed(FaultyDevice()) as device:
        printed = shows("run", compiled, "--device", device.name)
    assert "largest difference from nnapi-reference" in printed
    assert "within the tolerance" in printed
    with installed(FaultyDevice(wrong=1.0)) as device:
        assert main(["run", str(compiled), "--device", device.name]) == 1
    assert "beyond the tolerance" in capfd.readouterr().out


@pytest.mark.parametrize("verb", ["prepare", "check"])
def test_what_is_compiled_is_not_prepared_again(verb: str, compiled: Path, tmp_path, capfd):
    more = ["-o", str(tmp_path / "out")] if verb == "prepare" else ["--optimization-level", "basic"]
    assert main([verb, str(compiled), *more]) == 2
    assert "it is compiled already" in capfd.readouterr().err


def test_contexts_of_others_are_not_ours(tmp_path: Path) -> None:
    text = '(float[1] x) => (float[1] y) { y = com.microsoft.EPContext <source = "Other"> (x) }'
    onnx.save(parsed(text), tmp_path / "other.onnx")
    assert contents(tmp_path / "other.onnx") == ()


def test_check_shows_alternatives(shows, tmp_path: Path) -> None:
    given = {"format": "context", "alternatives": "nnapi:4,nnapi:1,cpu", "verify": False}
    (made,) = ep_nnapi.prepare(DIGITS, tmp_path, **given).models
    path = tmp_path / made.output
    (found,) = contents(path)
    expected = [("nnapi:1", "NNAPI", 1), ("cpu", "ONNX", 0)]
    assert [(a.name, a.kind, a.feature_level) for a in found.alternatives] == expected
    nnapi, cpu = found.alternatives
    assert nnapi.operations == found.operations > 3
    assert nnapi.bytes + cpu.bytes < found.weights / 2  # most of them they share
    said = shows("check", path)
    assert "NNAPI of feature level 1: Android 8.1 and later" in said
    (context,) = json.loads(shows("check", "--json", path))["contexts"]
    assert [a["name"] for a in context["alternatives"]] == ["nnapi:1", "cpu"]


def test_a_cluster_without_an_nnapi_program_is_shown(tmp_path: Path) -> None:
    given = {"format": "context", "alternatives": "cpu", "verify": False}
    (made,) = ep_nnapi.prepare(DIGITS, tmp_path, **given).models
    (found,) = contents(tmp_path / made.output)
    assert (found.feature_level, found.operations) == (0, 0)
    assert [a.runs_on for a in found.alternatives] == ["any ONNX Runtime"]


def test_constants_of_two_types_are_counted(shows, tmp_path: Path):
    """int8 for level 4, uint8 for those that have no signed tensors."""
    text = """q = QuantizeLinear(x, s, z)
    c = QLinearConv(q, s, z, w, s, z, s, z)
    y = DequantizeLinear(c, s, z)"""
    weights = np.random.default_rng(1).integers(-99, 99, (8, 3, 3, 3), np.int8)
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": weights}
    model = model_of(nodes_of(text), {"x": (1, 3, 8, 8)}, {"y": None}, constants)
    onnx.save(model, tmp_path / "model.onnx")
    given = {"format": "context", "alternatives": "nnapi:4,nnapi:3", "verify": False}
    (made,) = ep_nnapi.prepare(tmp_path / "model.onnx", tmp_path / "out", **given).models
    path = tmp_path / "out" / made.output
    (found,) = contents(path)
    assert found.of_two_types == (1, weights.nbytes)
    said = shows("check", path)
    assert "nnapi_0: 1 constant as int8 and as uint8, 216 bytes more" in said


MODEL = model_of(nodes_of("h = Exp(x)\ny = Relu(h)"), {"x": (2, 8)}, {"y": None}, opset=14)
LEVELS = [device.name for device in level_devices()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """NNAPI has EXP from level 3 on; below, the CPU has a part."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    given = {"format": "context", "alternatives": "nnapi:3,nnapi:1,cpu", "verify": False}
    (made,) = ep_nnapi.prepare(tmp_path / "model.onnx", tmp_path / "out", **given).models
    return tmp_path / "out" / made.output


def test_levels_and_profiles(path: Path):
    found = {phone.name: phone for phone in phones(path)}
    assert list(found)[:8] == LEVELS
    assert list(found)[-1] == "without NNAPI"
    assert found["feature-level-3"].declined == ({"nnapi:3": "", "nnapi:1": "", "cpu": ""},)
    assert found["feature-level-2"].answer("nnapi:3") == "needs level 3"
    assert found["without NNAPI"].answer("cpu") == "yes"
    assert found["sample-minimal"].answer("nnapi:3") == "declines EXP, RELU (profile)"
    assert takers(list(found.values()), "cpu", 0) == "all"
    assert takers(list(found.values()), "nnapi:3", 0).startswith("levels 3 to 8, sample-float")


def test_sessions_choose_what_a_profile_takes(path: Path):
    """And nothing that it does not, though the host would compile it."""
    x = np.linspace(-4, 4, 16, dtype=np.float32).reshape(2, 8)
    want = np.exp(x)
    found = {phone.name: phone for phone in phones(path)}
    chosen = {}
    for profile in profile_paths():
        session = nnapi_session(str(path), device_profile=str(profile), prefer="nnapi,cpu")
        np.testing.assert_allclose(session.run(None, {"x": x})[0], want, rtol=1e-5)
        (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
        name = profile.name.partition(".")[0]
        taken = [a for a in ("nnapi:3", "nnapi:1", "cpu") if found[name].takes(a, 0)]
        chosen[name] = cluster["alternative"]
        assert chosen[name].partition(" on ")[0] == taken[0]
    assert chosen["sample-minimal"] == "cpu"
    assert chosen["sample-float"] == "nnapi:3 on sample-float"


def test_several_clusters_are_one_answer():
    phone = Phone("one", 2, ({"nnapi:1": "", "cpu": ""}, {"nnapi:3": "needs level 3", "cpu": ""}))
    assert phone.answer("nnapi:1") == "yes"
    assert phone.answer("nnapi:3") == "needs level 3"
    expected = "1 of 2 not: needs level 3"
    assert Phone("two", 1, (*phone.declined, {"nnapi:3": ""})).answer("nnapi:3") == expected
    assert phone.answer("litert") == "-"


def test_check_and_report_show_them(shows, path: Path, tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "profiles"))
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "broken.json").write_text("{}")
    said = shows("check", path)
    assert "taken by\n" in said
    assert "feature-level-2  2      needs level 3  yes            yes\n" in said
    assert "broken.json is no device profile" in caplog.text
    there = json.loads(shows("check", "--json", path))["phones"]
    assert [phone["name"] for phone in there] == [*LEVELS, "without NNAPI"]
    page = tmp_path / "page.html"
    words = ["report", str(path), "-o", str(page), "--no-levels"]
    caplog.clear()
    assert main([*words, "--json"]) == 0
    assert caplog.text.count("broken.json is no device profile") == 1  # for page and terminal
    assert json.loads(capfd.readouterr().out)["phones"] == there
    assert "without NNAPI    -      needs level 3" in shows(*words)
    html = page.read_text(encoding="utf-8")
    assert embedded(html)["phones"] == there
    assert "<h2>Phones and alternatives</h2>" in html


def test_other_models_have_no_phones(tmp_path: Path):
    onnx.save(MODEL, tmp_path / "model.onnx")
    assert phones(tmp_path / "model.onnx") == ()
