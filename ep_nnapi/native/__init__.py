"""C files of native/ for Python: the reader of contexts, notes of trials, LiteRT's client."""

from __future__ import annotations

from ep_nnapi.nnapi.errors import require_built

require_built("ep_nnapi.native._native")
