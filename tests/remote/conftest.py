from pathlib import Path

import pytest

from ep_nnapi.remote.adb import AGENTS
from tests.bundling.phone import ABI, needs_abi
from tests.native.build import COMPILER
from tests.remote.agents import Bench, Reach, agents_folder, bench, phone

__all__ = ["built"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The agent, and a library that does what it is told to."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    return bench(tmp_path_factory.mktemp("agent"))


ADB = pytest.param("adb", marks=[needs_abi, pytest.mark.long])


@pytest.fixture(params=["exec", ADB])
def reach(
    request: pytest.FixtureRequest, built: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Reach:
    """Agents over exec:, and in the long suite over adb."""
    if request.param == "exec":
        return Reach(built, tmp_path, None)
    monkeypatch.setenv(AGENTS, str(agents_folder(built, tmp_path / "agents", ABI)))
    return Reach(built, tmp_path, phone(tmp_path, ABI, monkeypatch.setenv))
