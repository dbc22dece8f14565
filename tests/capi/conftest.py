from collections.abc import Iterator

import pytest

from ep_nnapi.nnapi.capi import libneuralnetworks_path
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
