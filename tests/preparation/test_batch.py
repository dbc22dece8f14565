"""Directories, executors, the manifest, and what a killed run leaves."""

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.preparation import manifest
from ep_nnapi.preparation.batch import Preparation
from ep_nnapi.preparation.manifest import Status, merged
from ep_nnapi.preparation.task import locked
from tests.onnx_graph import parsed

ROOT = Path(__file__).parents[2]


def tiny(path: Path, seed: int = 0, op: str = "Relu") -> Path:
    """A matrix product and `op`."""
    weights = np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32)
    text = f"(float[2,4] x) => (float[2,3] y) {{ m = MatMul (x, w) y = {op} (m) }}"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(parsed(text, w=weights), path)
    return path


def statuses(done: Preparation) -> dict[str, str]:
    return {m.model: str(m.status) for m in done.models}


def test_a_failing_model_does_not_stop_the_rest(tmp_path: Path) -> None:
    tiny(tmp_path / "in" / "a.onnx")
    tiny(tmp_path / "in" / "sub" / "b.onnx", 1)
    (tmp_path / "in" / "bad.onnx").write_bytes(b"\x08\x07nonsense")
    (tmp_path / "in" / "notes.txt").write_text("no model")
    out = tmp_path / "out"
    done = ep_nnapi.prepare(tmp_path / "in", out, jobs=2)
    expected = {"a.onnx": Status.PREPARED, "bad.onnx": Status.FAILED, "sub/b.onnx": Status.PREPARED}
    assert statuses(done) == expected
    wanted = ["a.ort", "manifest.json", "required_operators.config", "sub/b.ort"]
    assert sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()) == wanted
    found = json.loads((out / "manifest.json").read_text())["models"]
    assert [m["status"] for m in found] == ["prepared", "failed", "prepared"]
    assert found[0]["report"]["clusters"]
    assert "Protobuf" in found[1]["error"]
    assert "# - sub/b.ort" in (out / "required_operators.config").read_text()


def test_what_is_up_to_date_is_skipped(tmp_path: Path) -> None:
    first, other = tiny(tmp_path / "in" / "a.onnx"), tiny(tmp_path / "in" / "b.onnx", 1)
    out = tmp_path / "out"
    given = {"format": "context", "verify": False}
    ep_nnapi.prepare(tmp_path / "in", out, **given)
    again = ep_nnapi.prepare(tmp_path / "in", out, **given)
    assert set(statuses(again).values()) == {Status.UP_TO_DATE}
    tiny(first, 2)
    changed = ep_nnapi.prepare(tmp_path / "in", out, **given)
    assert statuses(changed) == {first.name: Status.PREPARED, other.name: Status.UP_TO_DATE}
    assert len(list(out.glob("a_ctx.*.weights"))) == 1  # the earlier weights are gone
    next(out.glob("b_ctx.*.weights")).write_bytes(b"")
    damaged = ep_nnapi.prepare(tmp_path / "in", out, **given)
    assert statuses(damaged) == {first.name: Status.UP_TO_DATE, other.name: Status.PREPARED}


def test_another_format_of_that_name_leaves_the_weights(tmp_path: Path) -> None:
    path, given = tiny(tmp_path / "a.onnx"), {"verify": False}
    ep_nnapi.prepare(path, tmp_path / "x.onnx", format="context", **given)
    before = {p.name for p in tmp_path.glob("x.*")}
    ep_nnapi.prepare(path, tmp_path / "x.ort", **given)
    expected = {p.name for p in tmp_path.glob("x.*")}
    assert before | {"x.ort", "x.required_operators.config"} == expected
    ep_nnapi.prepare(path, tmp_path / "x.onnx", **given)  # which replaces the one with weights
    assert not list(tmp_path.glob("x.*.weights"))


@pytest.mark.parametrize("name", ["sources", "outputs", "operators", "recipe", "model"])
def test_a_manifest_of_others_is_nothing_that_is_known(name: str, tmp_path: Path) -> None:
    ep_nnapi.prepare(tiny(tmp_path / "a.onnx"), tmp_path, verify=False)
    path = tmp_path / "manifest.json"
    written = json.loads(path.read_text())
    assert list(manifest.read(path)) == ["a.ort"]
    for odd in (5, [5], {"a": 5}, {"job": {}, "verification": None, "versions": {}}):
        written["models"][0][name] = odd
        path.write_text(json.dumps(written))
        assert manifest.read(path) == {}
    path.write_text("[" * 100_000)
    assert manifest.read(path) == {}


def test_one_model_says_why_it_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    with pytest.raises(ep_nnapi.ModelError, match="cannot load"):
        ep_nnapi.prepare(tmp_path / "bad.onnx", tmp_path / "out")
    path = tiny(tmp_path / "a.onnx")
    with pytest.raises(ep_nnapi.OptionError, match="would be replaced"):
        ep_nnapi.prepare(path, path)
    with pytest.raises(ep_nnapi.OptionError, match="jobs is 0"):
        ep_nnapi.prepare(path, tmp_path / "out", jobs=0)
    with pytest.raises(ep_nnapi.OptionError, match="tolerance is nan"):
        ep_nnapi.prepare(path, tmp_path / "out", tolerance=float("nan"))


def test_a_difference_beyond_the_tolerance_writes_nothing(tmp_path: Path) -> None:
    """float16, which USE_FP16 has NNAPI compute in, is less exact than any tolerance of 0."""
    path = tiny(tmp_path / "in" / "a.onnx", op="Exp")
    done = ep_nnapi.prepare(path.parent, tmp_path / "out", tolerance=0.0, flags="USE_FP16")
    assert done.failed
    assert not list((tmp_path / "out").glob("*.ort"))


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    """A directory where a model is to go, or what is about all models, and a link to nothing."""
    tiny(tmp_path / "in" / "a.onnx")
    (tmp_path / "in" / "b.onnx").symlink_to("nothing.onnx")
    out = tmp_path / "out"
    (out / "a.ort").mkdir(parents=True)
    errors = [m.error for m in ep_nnapi.prepare(tmp_path / "in", out).models]
    lost = tmp_path / "in" / "b.onnx"
    assert errors == [f"{out / 'a.ort'}: Is a directory", f"{lost}: no such file"]
    (out / "required_operators.config").mkdir()
    (out / "a.ort").rmdir()
    with pytest.raises(ep_nnapi.OptionError, match=r"\.config cannot be written: Is a directory"):
        ep_nnapi.prepare(tmp_path / "in", out)
    assert [m["status"] for m in json.loads((out / "manifest.json").read_text())["models"]] == [
        "prepared",
        "failed",
    ]
    (out / "manifest.json").unlink()
    (out / "manifest.json").mkdir()
    with pytest.raises(ep_nnapi.OptionError, match=r"manifest\.json cannot be read: Is a dir"):
        ep_nnapi.prepare(tmp_path / "in", out)
    with pytest.raises(ep_nnapi.OptionError, match="cannot be written: Not a directory"):
        manifest.write(lost.with_name("a.onnx") / "manifest.json", ())


def both(executor: Executor, folder: Path) -> None:
    tiny(folder / "in" / "a.onnx")
    tiny(folder / "in" / "b.onnx", 1, "Sigmoid")
    done = ep_nnapi.prepare(folder / "in", folder / "out", executor=executor, verify=False)
    assert set(statuses(done).values()) == {Status.PREPARED}


def test_processes_prepare(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        both(executor, tmp_path)


def test_a_dask_cluster_prepares(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        both(client.get_executor(), tmp_path)


class Meanwhile(Executor):
    """Before it does anything, another run into the same folder is over."""

    def __init__(self, other: Callable[[], object]) -> None:
        self._other = other

    def submit(self, fn, /, *args, **kwargs):
        self._other()
        done = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_two_runs_into_one_folder_know_of_each_other(tmp_path: Path) -> None:
    first, other = tiny(tmp_path / "a.onnx"), tiny(tmp_path / "b.onnx", 1, "Sigmoid")
    out, given = tmp_path / "out", {"verify": False}
    meanwhile = Meanwhile(lambda: ep_nnapi.prepare(other, out, **given))
    ep_nnapi.prepare(first, out, executor=meanwhile, **given)
    assert [e.model for e in manifest.read(out / "manifest.json").values()] == ["a.onnx", "b.onnx"]
    operators = (out / "required_operators.config").read_text()
    assert "# - a.ort\n# - b.ort\n" in operators
    assert "Sigmoid" in operators


def test_what_runs_share_they_change_one_after_the_other(tmp_path: Path) -> None:
    """The folder that this test has is waited for."""
    path, out = tiny(tmp_path / "a.onnx"), tmp_path / "out"
    out.mkdir()
    with ThreadPoolExecutor(1) as executor:
        with locked(out):
            made = executor.submit(ep_nnapi.prepare, path, out, verify=False)
            with pytest.raises(TimeoutError):
                made.result(timeout=0.2)
            assert not list(out.iterdir())
        assert not made.result().failed


def test_operators_of_several_models_are_united() -> None:
    lines = ['a;13;B{"inputs": {"0": ["float"]}},C', 'a;13;B{"inputs": {"0": ["int8_t"]}}', "a;7;D"]
    assert merged(lines) == ["a;7;D", 'a;13;B{"inputs": {"0": ["float", "int8_t"]}},C']
