"""Mark of tests that run LiteRT."""

from importlib.util import find_spec

import pytest

LITERT = pytest.mark.skipif(
    find_spec("ai_edge_litert") is None, reason="needs the extra litert: make test-litert"
)
