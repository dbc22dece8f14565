"""LiteRT programs of prepared models in the C plugin and nnapi_run, on the package's library."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.litert import package
from tests.litert.needs import LITERT
from tests.native import sessions
from tests.native.build import environment, needs_compiler, sanitized
from tests.native.test_choice import FEEDS, MODEL, RIGHT, outcome

pytestmark = [needs_compiler, LITERT]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions.prepared(MODEL, tmp_path_factory.mktemp("m"), alternatives="litert,nnapi:1,cpu")


def test_the_library_that_is_named_computes(path: Path, tmp_path: Path) -> None:
    prefer = {"prefer": "litert-cpu,nnapi", "litert": package.library()[0], "litert_threads": "2"}
    found = outcome(path, tmp_path, **prefer)
    assert (found["alternative"], found["device"]) == ("litert on litert-cpu", "litert-cpu")
    assert (found["runs"], found["device_runs"], found["tried"]) == (2, 2, [])


def test_a_library_that_is_not_there_gives_way(path: Path, tmp_path: Path) -> None:
    found = outcome(path, tmp_path, prefer="litert-cpu,cpu", litert="/no/libLiteRt.so")
    assert found["alternative"] == "cpu"
    assert "LiteRT: /no/libLiteRt.so: cannot open" in found["tried"][0]["reason"]


@pytest.mark.parametrize("threads", ["0", "two", "1025"])
def test_threads_are_a_number(threads: str, path: Path) -> None:
    with pytest.raises(Exception, match=f"litert_threads is '{threads}'; it must be 1 to 1024"):
        sessions.session(path, litert_threads=threads)


def test_nnapi_run_takes_the_library_too(path: Path, tmp_path: Path) -> None:
    """Under sanitizers, and with no NNAPI library."""
    program = sanitized(tmp_path).program("nnapi_run")
    ((name, array),) = FEEDS.items()
    np.save(tmp_path / "in.npy", array)
    given = ("--input", f"{name}={tmp_path / 'in.npy'}", "--outputs", tmp_path, "--runs", "2")
    more = ("--receipt", tmp_path / "receipt.json")
    done = subprocess.run(
        [program, path, *given, *more, "--prefer", "litert-cpu", "--litert", package.library()[0]],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "litert-cpu" in done.stdout
    (out,) = (p for p in tmp_path.glob("*.npy") if p.stem != "in")
    np.testing.assert_allclose(np.load(out), RIGHT, rtol=1e-4, atol=1e-5)
