"""The C parts under gcc's AddressSanitizer and UndefinedBehaviorSanitizer."""

from pathlib import Path

import pytest

from tests.fuzz import sanitized

pytestmark = pytest.mark.long
FINDING = 99
FREED = """
from ep_nnapi.ort._native import ffi, lib

compute = lib.new_compute(ffi.NULL, 1, 1)
lib.free_compute(compute)
lib.set_direct_run(compute, 0, ffi.NULL)
"""


@pytest.fixture(scope="module")
def library() -> str:
    found = sanitized.runtime()
    if found is None:
        pytest.skip("gcc has no AddressSanitizer here")
    return found


@pytest.fixture(scope="module")
def copy(library: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    sanitized.build(folder)
    return folder


def test_a_finding_ends_python(copy: Path, library: str):
    """A struct of the plugin is read after it was freed."""
    assert sanitized.run(copy, library, "-c", FREED) == FINDING


def test_random_calls_of_the_c_api_have_no_finding(copy: Path, library: str):
    """They print their seed."""
    assert sanitized.run(copy, library, "-m", "tests.capi.fuzz", "--seconds=60") == 0


def test_the_plugins_tests_have_no_finding(copy: Path, library: str):
    """They call every C file: sessions, profiles, options of runs, selection, contexts' data."""
    assert sanitized.run(copy, library, *sanitized.PLUGIN) == 0
