"""EPContext nodes: compiled clusters stored as containers in ONNX models."""

from __future__ import annotations

from ep_nnapi.nnapi.errors import NotBuiltError

try:
    import ep_nnapi.epcontext._native  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ep_nnapi.epcontext._native":
        raise
    raise NotBuiltError from None
