"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import partitioner


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(partitioner.__path__)])
def test_examples(name):
    assert doctest.testmod(importlib.import_module(f"partitioner.{name}")).failed == 0
