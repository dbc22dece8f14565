from collections.abc import Iterator
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.capi.header import write_header
from tests.capi.client import Library
from tests.capi.world import World


@pytest.fixture(scope="session")
def nn() -> Library:
    return Library(libneuralnetworks_path())


@pytest.fixture
def world(nn: Library) -> Iterator[World]:
    made = World(nn)
    yield made
    made.close()


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A directory with the header."""
    write_header(tmp_path)
    return tmp_path
