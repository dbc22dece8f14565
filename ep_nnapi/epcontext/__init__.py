"""EPContext nodes: compiled clusters stored as containers in ONNX models."""

from __future__ import annotations

from ep_nnapi.nnapi.errors import require_built

require_built("ep_nnapi.epcontext._native")
