"""Which phones would take the alternatives of compiled clusters: what sessions on them choose."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics.phones import Phone, phones, takers
from ep_nnapi.provider.virtual_devices import FOLDER_VARIABLE, level_devices, profile_paths
from tests.end_to_end.sessions import nnapi_session
from tests.html_report.models import embedded
from tests.onnx_graph import model_of, nodes_of

pytestmark = pytest.mark.usefixtures("one_server")
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
    assert Phone("two", 1, (*phone.declined, {"nnapi:3": ""})).answer("nnapi:3") == (
        "1 of 2 not: needs level 3"
    )
    assert phone.answer("litert") == "-"


def test_check_and_report_show_them(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "profiles"))
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "broken.json").write_text("{}")
    assert main(["check", str(path)]) == 0
    said = capfd.readouterr().out
    assert "taken by\n" in said
    assert "feature-level-2  2      needs level 3  yes            yes\n" in said
    assert "broken.json is no device profile" in caplog.text
    assert main(["check", "--json", str(path)]) == 0
    there = json.loads(capfd.readouterr().out)["phones"]
    assert [phone["name"] for phone in there] == [*LEVELS, "without NNAPI"]
    page = tmp_path / "page.html"
    words = ["report", str(path), "-o", str(page), "--no-levels"]
    caplog.clear()
    assert main([*words, "--json"]) == 0
    assert caplog.text.count("broken.json is no device profile") == 1  # for page and terminal
    assert json.loads(capfd.readouterr().out)["phones"] == there
    assert main(words) == 0
    assert "without NNAPI    -      needs level 3" in capfd.readouterr().out
    html = page.read_text(encoding="utf-8")
    assert embedded(html)["phones"] == there
    assert "<h2>Phones and alternatives</h2>" in html


def test_other_models_have_none(tmp_path: Path):
    onnx.save(MODEL, tmp_path / "model.onnx")
    assert phones(tmp_path / "model.onnx") == ()
