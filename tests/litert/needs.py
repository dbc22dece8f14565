"""Mark of tests that run LiteRT."""

import pytest

from ep_nnapi.litert.package import is_installed as installed

LITERT = pytest.mark.skipif(not installed(), reason="needs the extra litert: make test-litert")
