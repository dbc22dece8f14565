import pytest

from tests.cli.conftest import cli
from tests.native.build import COMPILER
from tests.remote.agents import Bench, bench

__all__ = ["built", "cli"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The agent, and a library that does what it is told to."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    return bench(tmp_path_factory.mktemp("agent"))
