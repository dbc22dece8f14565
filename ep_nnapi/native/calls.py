"""Calls of the C files of native/ that may fail."""

from __future__ import annotations

from collections.abc import Callable

from ep_nnapi.native._native import ffi


def done(kind: type[Exception], call: Callable[..., bool], *given: object) -> None:
    """Has C do it; raises `kind` with the sentence that C says."""
    error = ffi.new("ctx_error *")
    if not call(*given, error):
        raise kind(ffi.string(error.text).decode(errors="replace"))
