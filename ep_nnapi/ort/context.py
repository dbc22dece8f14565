"""EPContext nodes that ONNX Runtime writes into a compiled model, and where their weights are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.epcontext.layout import CONTEXT_DOMAIN, CONTEXT_OP
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, api, check, ep_api, stored

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import AttributeValue
    from ep_nnapi.ort._native import CData


_ENABLE, _FILE, _EMBED = "ep.context_enable", "ep.context_file_path", "ep.context_embed_mode"
_COMPILES = "session.disable_model_compile"  # every ModelCompiler sets it, to 0 or 1
_WEIGHTLESS = (
    "ep.enable_weightless_mode",
    "ep.enable_weightless",
    "ep.enable_weightless_ep_context_nodes",
)
"""Options that ask for contexts without weights, in ONNX Runtime 1.29 and later ones."""
_CONTEXT_DATA = 31
"""The first version of ONNX Runtime with callbacks for the data of EPContext nodes."""
_INT, _STRING = 1, 5  # Source: OrtOpAttrType.


@frozen
class ContextOptions:
    """ONNX Runtime's options for a compiled model: its file, and if it contains the weights.

    beside_source  True if it is written next to the model that is compiled, unless `file` is given;
                   False if `file` is empty because it is returned as bytes
    """

    file: str
    embed: bool
    beside_source: bool = True

    def weights_beside(self, source: str) -> Path | None:
        """Returns the compiled model's path, next to which weights go; None if it has them.

        source  path of the model that is compiled; "" if it was loaded from memory
        Raises OptionError if there is no path.
        """
        if self.embed:
            return None
        if not self.file and not (source and self.beside_source):
            raise OptionError(
                f"{_EMBED} is 0, but the compiled model has no path next to which its weights "
                f"could be written; set {_FILE}, or {_EMBED} to 1"
            )
        return self.compiled_path(source)

    def compiled_path(self, source: str) -> Path:
        """Returns the compiled model's path; without any, a name for it."""
        # Without a path, ONNX Runtime writes model_ctx.onnx next to model.onnx.
        return Path(self.file or f"{Path(source or 'model').with_suffix('')}_ctx.onnx")


def context_options(entries: Mapping[str, str]) -> ContextOptions | None:
    """Returns the options of a session that writes a compiled model; None for any other session.

    Raises OptionError for contexts without weights.

    >>> context_options({"ep.context_enable": "1", "ep.context_embed_mode": "1"}).embed
    True
    """
    for name in _WEIGHTLESS:
        if entries.get(name, "0") != "0":
            raise OptionError(
                f"{name} is {entries[name]}, but this provider's contexts have weights, in NNAPI's "
                f"layout; leave it out, or set {_EMBED} to 0 for a file of weights"
            )
    if entries.get(_ENABLE) != "1":
        return None
    compiler = _COMPILES in entries  # it gives the file, if the output is one
    return ContextOptions(entries.get(_FILE, ""), entries.get(_EMBED) == "1", not compiler)


def create_context_node(fused: GraphNode, context: bytes, nodes: Sequence[str]) -> int:
    """Returns a new OrtNode with the context of these nodes, and the fused one's ends."""
    from ep_nnapi.epcontext.contexts import context_attributes  # most sessions write no context

    attributes = _attributes(context_attributes(context, fused.name, nodes))
    inputs, outputs = _names(fused.inputs), _names(fused.outputs)
    node = stored(
        "OrtNode *",
        api().GetModelEditorApi().CreateNode,  # which takes over the attributes
        *(CONTEXT_OP.encode(), CONTEXT_DOMAIN.encode(), _encoded(fused.name)),
        *(inputs, len(inputs), outputs, len(outputs), attributes, len(attributes)),
    )
    return int(ffi.cast("uintptr_t", node))


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _names(values: Sequence[Value | None]) -> list[CData]:
    return [ffi.new("char[]", _encoded(v.name if v is not None else "")) for v in values]


def _attributes(values: Mapping[str, AttributeValue]) -> CData:
    """Returns an array of new attributes."""
    made: CData = ffi.new("OrtOpAttr *[]", len(values))
    for i, (name, value) in enumerate(values.items()):
        if isinstance(value, int):
            data, size, kind = ffi.new("int64_t *", value), 1, _INT
        else:
            given = _encoded(value) if isinstance(value, str) else value
            data, size, kind = ffi.from_buffer(given), len(given), _STRING
        check(api().CreateOpAttr(name.encode(), data, size, kind, made + i))
    return made


class ContextData:
    """The callbacks of session options; ONNX Runtime 1.31 and newer has them."""

    def __init__(self, options: CData) -> None:
        """Take the callbacks of an OrtSessionOptions; they are released with this object."""
        self._read = ffi.new("OrtReadNamedBufferFunc *")
        self._write = ffi.new("OrtWriteNamedBufferFunc *")
        self._states = ffi.new("void *[2]")
        self._last: tuple[str, Array] | None = None
        if lib.ort_version() < _CONTEXT_DATA:
            return
        ort = ep_api()
        config = stored("OrtEpContextConfig *", ort.SessionOptions_GetEpContextConfig, options)
        self._config = ffi.gc(config, ort.ReleaseEpContextConfig)
        given = self._config, self._read, self._states
        check(ort.EpContextConfig_GetEpContextDataReadFunc(*given))
        given = self._config, self._write, self._states + 1
        check(ort.EpContextConfig_GetEpContextDataWriteFunc(*given))

    @property
    def reads(self) -> bool:
        """True if the application has set a callback that reads external context data."""
        return bool(self._read[0])

    @property
    def writes(self) -> bool:
        """True if the application has set a callback that writes external context data."""
        return bool(self._write[0])

    def read(self, name: str) -> Array:
        """Returns external context data by file name, from the application's callback.

        The last file stays until `forget`, because the clusters of a model share it. Raises
        ModelError with the callback's message if it fails.
        """
        if self._last is None or self._last[0] != name:
            self._last = (name, self._copy(name))
        return self._last[1]

    def _copy(self, name: str) -> Array:
        found, size = ffi.new("void **"), ffi.new("size_t *")
        allocator = stored("OrtAllocator *", api().GetAllocatorWithDefaultOptions)
        try:
            check(self._read[0](self._states[0], _encoded(name), allocator, found, size))
            if size[0] and not found[0]:
                raise OrtError("onnxruntime: the callback returned no data")
            return np.frombuffer(bytes(ffi.buffer(found[0], size[0])), np.uint8)
        except OrtError as error:
            raise ModelError(f"the application's weights {name!r}: {error}") from None
        finally:
            if found[0]:
                check(api().AllocatorFree(allocator, found[0]))

    def forget(self) -> None:
        """Drops the file that `read` has kept."""
        self._last = None

    def write(self, name: str, content: bytes) -> None:
        """Gives the application's callback a file to write; raises OrtError if that fails."""
        data = ffi.from_buffer(content)
        check(self._write[0](self._states[1], _encoded(name), data, len(content)))
