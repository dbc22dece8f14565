"""One file of each network of the zoo runs, right, on every system, in C and in Python alike.

On libraries of every feature level; on one that declines, fails, hangs or dies in each of its
functions, the last over two starts; on LiteRT alone; and on nothing but the CPU provider. The suite
has few networks; `make test-choice-zoo` has all of the zoo, float and quantized, and all codes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.litert import package
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.nnapi.library import binding, runtime
from ep_nnapi.nnapi.spec import BY_CODE
from models.zoo import MODELS, sample_inputs
from tests.end_to_end.test_library_faults import left
from tests.litert.needs import LITERT
from tests.native.alternatives import MAKERS, Feeds, both, outcome
from tests.native.build import ROOT, needs_compiler
from tests.native.sessions import prepared
from tests.native.test_zoo import SIZES, network
from tests.nnapi.library.recorded import Shim, built

pytestmark = [needs_compiler, pytest.mark.long]
ALL = os.environ.get("ALTERNATIVES") == "all"
FORMS = ("float", "u8u8", "u8s8")
FEW = [("kws_dscnn", "float"), ("mlp", "u8s8"), ("detector", "u8u8")]
NETWORKS = [(name, form) for name in SIZES for form in FORMS] if ALL else FEW
CREATED = "Compilation_finish"
NOWHERE = {"prefer": "nnapi,nnapi-cpu,cpu"}
"""Where LiteRT is of no interest: its library may be installed or not."""


@dataclass(frozen=True)
class File:
    """A prepared network with all alternatives, inputs, and what the original computes of them."""

    path: Path
    feeds: Feeds
    right: list[np.ndarray]
    quantized: bool

    def check(self, results: list[np.ndarray]) -> None:
        """Fails unless these are the outputs: a few quanta off where there are quanta."""
        for result, right in zip(results, self.right, strict=True):
            assert (result.dtype, result.shape) == (right.dtype, right.shape)
            if not self.quantized:
                np.testing.assert_allclose(result, right, rtol=1e-3, atol=1e-4)
            elif right.dtype.kind == "f" and right.size:
                least, extent = np.abs(result - right).mean(), float(np.ptp(right)) or 1.0
                assert least <= 0.05 * extent


@pytest.fixture(scope="module", params=NETWORKS, ids="-".join)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> File:
    name, form = request.param
    model, shapes = network(name, form)
    feeds = sample_inputs(MODELS[name](size=SIZES[name]))
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    path = prepared(model, tmp_path_factory.mktemp(name), alternatives="auto", fix=shapes)
    return File(path, feeds, right, form != "float")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Shim]:
    return {n: built(tmp_path_factory.mktemp(f"level{n}"), n) for n in range(1, 9)}


@pytest.fixture
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """A test's own: what hung in an earlier one still calls its library and keeps its objects."""
    return built(tmp_path_factory.mktemp("shim"))


def forget() -> None:
    """Has the next session in Python look for the library and its devices again."""
    binding.load.cache_clear()
    runtime._devices.cache_clear()


def test_every_level(file: File, libraries: dict[int, Shim], tmp_path: Path) -> None:
    for level, library in libraries.items():
        found = both(file.path, file.feeds, tmp_path, runtime=library.path, **NOWHERE)
        file.check(found.results)
        for chosen, _ in found.clusters:
            assert chosen.startswith("nnapi:"), level
            assert int(chosen[6]) <= level


def called(file: File, shim: Shim, folder: Path) -> dict[str, list[str]]:
    """The functions that sessions of the file call, in C and in Python."""
    names, found = [f.python_name for f in FUNCTIONS], {}
    for maker in MAKERS:
        for name in names:
            shim.fault(name)
        forget()
        outcome(maker, file.path, file.feeds, folder, runtime=shim.path, **NOWHERE)
        found[maker] = [name for name in names if shim.calls(name)]
        assert CREATED in found[maker]
    shim.clear()
    return found


def test_what_fails(file: File, shim: Shim, tmp_path: Path) -> None:
    codes = [code for code in ResultCode if code] if ALL else [ResultCode.OP_FAILED]
    coded = {f.python_name for f in FUNCTIONS if f.returns == "int"}
    by = called(file, shim, tmp_path)
    for name in coded & {*by["c"]} & {*by["python"]}:
        for code in codes:
            forget()
            shim.fault(name, code)
            found = both(file.path, file.feeds, tmp_path, runtime=shim.path, **NOWHERE)
            shim.clear()
            file.check(found.results)
            if name == CREATED:
                assert {chosen for chosen, _ in found.clusters} == {"cpu"}
    assert left(shim) == {}


def test_what_declines(file: File, shim: Shim, tmp_path: Path) -> None:
    forget()
    shim.decline(*BY_CODE)
    shim.fault(CREATED, ResultCode.BAD_DATA)
    found = both(file.path, file.feeds, tmp_path, runtime=shim.path, **NOWHERE)
    file.check(found.results)
    assert {chosen for chosen, _ in found.clusters} == {"cpu"}
    assert "declines" in found.clusters[0][1][0][1]


def cases(file: File, shim: Shim, folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Functions, who calls them, and options with a folder of notes for that alone."""
    for maker, names in called(file, shim, folder).items():
        # a session in Python frees its memory of weights when all else of it has ended
        for name in set(names) - ({"Memory_free"} if maker == "python" else set()):
            notes = folder / f"{maker}-{name}"
            notes.mkdir()
            yield name, maker, {"runtime": shim.path, "cache_dir": str(notes), **NOWHERE}


def test_what_hangs(file: File, shim: Shim, tmp_path: Path) -> None:
    for name, maker, options in cases(file, shim, tmp_path):
        for start in range(2):
            forget()
            shim.fault(name, milliseconds=2000 if start == 0 else 0)
            limit = {"trial_timeout": "0.5"} if start == 0 else {}
            found = outcome(maker, file.path, file.feeds, tmp_path, **options, **limit)
            shim.clear()
            file.check(found.results)
            if start == 1:
                assert "an earlier start" in found.clusters[0][1][0][1], (name, maker)


def test_what_dies(file: File, shim: Shim, tmp_path: Path) -> None:
    """In processes of their own: the first start ends, the second one is right."""
    starts = [*cases(file, shim, tmp_path)]
    np.savez(tmp_path / "feeds.npz", **file.feeds)
    (tmp_path / "cases.json").write_text(json.dumps(starts))
    command = [sys.executable, "-m", "tests.native.dying", str(file.path), str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=3000)
    ends = json.loads((tmp_path / "ends.json").read_text())
    for number, (case, ended) in enumerate(zip(starts, ends, strict=True)):
        assert ended == [-signal.SIGABRT, 0], case
        with np.load(tmp_path / f"{number}.npz") as results:
            file.check([results[key] for key in results])


@pytest.fixture
def no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no NNAPI library."""
    forget()
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ())


@LITERT
def test_litert_alone(file: File, tmp_path: Path, no_system: None) -> None:
    where = {"prefer": "nnapi,litert-cpu,cpu"}
    litert = package.library()[0]
    one = outcome("c", file.path, file.feeds, tmp_path, runtime="/no.so", litert=litert, **where)
    other = outcome("python", file.path, file.feeds, tmp_path, runtime="system", **where)
    assert one.names == other.names, (one.clusters, other.clusters)
    for found in (one, other):
        file.check(found.results)
    for ours, theirs in zip(one.results, other.results, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_nothing_but_the_cpu_provider(file: File, tmp_path: Path, no_system: None) -> None:
    one = outcome("c", file.path, file.feeds, tmp_path, runtime="/no.so", **NOWHERE)
    other = outcome("python", file.path, file.feeds, tmp_path, runtime="system", **NOWHERE)
    assert one.names == other.names, (one.clusters, other.clusters)
    assert {chosen for chosen, _ in one.clusters} == {"cpu"}
    file.check(one.results)
    for ours, theirs in zip(one.results, other.results, strict=True):
        assert ours.tobytes() == theirs.tobytes()
