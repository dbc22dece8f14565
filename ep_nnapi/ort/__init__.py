"""ONNX Runtime plugin interface, based on the compiled module `_native`."""

from __future__ import annotations

from ep_nnapi.nnapi.errors import require_built

require_built("ep_nnapi.ort._native")
