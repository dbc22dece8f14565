"""The examples in docstrings are true."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def modules_with_examples() -> list[object]:
    """Their names; those of `torch` need it."""
    files = (f for p in ("ep_nnapi", "partitioner", "models") for f in (ROOT / p).rglob("*.py"))
    paths = sorted(f.relative_to(ROOT) for f in files if "\n    >>> " in f.read_text())
    names = (".".join(path.with_suffix("").parts) for path in paths)
    return [pytest.param(n, marks=[pytest.mark.torch] * (".torch." in n)) for n in names]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name: str) -> None:
    failed, attempted = doctest.testmod(import_module(name))
    assert failed == 0 < attempted
