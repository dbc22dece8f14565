"""ONNX Runtime plugin interface, based on the compiled module `_native`."""

from __future__ import annotations

from ep_nnapi.nnapi.errors import NotBuiltError

try:
    import ep_nnapi.ort._native  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "ep_nnapi.ort._native":
        raise
    raise NotBuiltError from None
