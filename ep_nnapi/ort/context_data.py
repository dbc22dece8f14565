"""Callbacks of an application that read and write the weights of compiled models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData


class ContextData:
    """The callbacks of session options; ONNX Runtime 1.31 and newer has them."""

    def __init__(self, options: CData) -> None:
        """Take the callbacks of an OrtSessionOptions; they are released with this object."""
        self._data = ffi.gc(ffi.new("ContextData *"), lib.close_context_data)
        check(lib.open_context_data(options, self._data))
        self._last: tuple[str, Array] | None = None

    @property
    def reads(self) -> bool:
        """True if the application has a callback that reads."""
        return bool(self._data.read)

    @property
    def writes(self) -> bool:
        """True if the application has a callback that writes."""
        return bool(self._data.write)

    def read(self, name: str) -> Array:
        """Returns the bytes that the application has under a name.

        The last ones stay until `forget`, because the clusters of a model share them. Raises
        ModelError with the callback's message if it fails.
        """
        if self._last is None or self._last[0] != name:
            self._last = (name, self._copy(name))
        return self._last[1]

    def _copy(self, name: str) -> Array:
        found, size = ffi.new("void **"), ffi.new("size_t *")
        try:
            check(lib.read_context_data(self._data, _encoded(name), found, size))
            return np.frombuffer(bytes(ffi.buffer(found[0], size[0])), np.uint8)
        except OrtError as error:
            raise ModelError(f"the application's weights {name!r}: {error}") from None
        finally:
            if found[0]:
                check(lib.free_context_data(found[0]))

    def forget(self) -> None:
        """Drops what `read` has kept."""
        self._last = None

    def write(self, name: str, content: bytes) -> None:
        """Hands bytes to the application under a name; raises OrtError if that fails."""
        data = ffi.from_buffer(content)
        check(lib.write_context_data(self._data, _encoded(name), data, len(content)))


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
