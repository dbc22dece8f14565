"""Binary container of an EPContext node: the NNAPI model and border of one compiled cluster.

    header | tables | weights | end

The weights are embedded, or in a separate file next to the prepared model that is memory-mapped.
Loading is safe for untrusted data: no code, no pickles, and no path outside of the model's folder.
docs/context.md specifies the format, `ep_nnapi.epcontext.layout` declares its records.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ep_nnapi.epcontext.layout import (
    CHECKED_FROM,
    HEADER,
    MAGIC,
    MODEL_HAS_CHECKSUM,
    TABLES,
    TERMINATOR,
)
from ep_nnapi.epcontext.names import FORMAT_VERSION
from ep_nnapi.epcontext.table_reader import TableReader
from ep_nnapi.epcontext.table_writer import ConstantPool, TableWriter, padded
from ep_nnapi.epcontext.weights import CORRUPT, WeightsLocation, WeightsSource, read_weights
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, SpecError
from ep_nnapi.nnapi.validate import required_level, validate

_VERSION = struct.Struct("<8sI")
_MALFORMED = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    SpecError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Container:
    """A cluster's container before it is written, with embedded or external weights.

    weights             blocks to write one after the other, each padded to `ALIGNMENT`
    size                bytes of all blocks with their padding
    model_has_checksum  True if the model's file will have a checksum, which readers then demand
    """

    lowered: Lowered
    feature_level: int
    weights: tuple[Array, ...]
    size: int
    model_has_checksum: bool

    def with_embedded_weights(self) -> bytes:
        """Returns the container with embedded weights."""
        blob = b"".join(padded(self.weights))
        digest = hashlib.sha256(blob).digest()
        return self._program(WeightsLocation("", 0, len(blob), 0, digest)) + blob + TERMINATOR

    def with_external_weights(self, location: WeightsLocation) -> bytes:
        """Returns the container without weights, which are stored at `location`."""
        return self._program(location) + TERMINATOR

    def weight_blocks(self) -> Iterator[bytes]:
        """Yields the weights with their padding, block by block."""
        yield from padded(self.weights)

    def _program(self, location: WeightsLocation) -> bytes:
        """Returns the header and the tables."""
        writer = TableWriter(self.lowered, ConstantPool())
        file = writer.text(location.file)
        ranges, tables = writer.tables()
        header = np.zeros((), HEADER.dtype)
        header["magic"] = np.frombuffer(MAGIC, np.uint8)
        header["version"] = FORMAT_VERSION
        header["flags"] = MODEL_HAS_CHECKSUM if self.model_has_checksum else 0
        header["program_size"] = HEADER.dtype.itemsize + len(tables)
        header["weights_sha256"] = np.frombuffer(location.sha256, np.uint8)
        header["weights_offset"] = location.offset
        header["weights_size"] = location.size
        header["weights_file_size"] = location.total
        header["weights_file"] = file
        header["feature_level"] = self.feature_level
        for table in TABLES:
            header[table.name] = ranges[table.name]
        return with_checksum(header.tobytes() + tables)


@dataclass(frozen=True, slots=True)
class ContainerContent:
    """A container's content: the lowered cluster and the feature level it needs.

    size                bytes of weights
    file                name of the weights' file next to the model; None if they are embedded
    model_has_checksum  True if the model's file must have a checksum of itself
    """

    lowered: Lowered
    feature_level: int
    size: int
    file: str | None
    model_has_checksum: bool


def pack(lowered: Lowered, *, model_has_checksum: bool = False) -> Container:
    """Returns a lowered cluster as a container ready to be written."""
    pool = ConstantPool()
    TableWriter(lowered, pool)
    level = required_level(lowered.model)
    return Container(lowered, level, tuple(pool.arrays), pool.size, model_has_checksum)


def with_checksum(program: bytes) -> bytes:
    """Returns header and tables with the checksum of their bytes in the header."""
    digest = hashlib.sha256(program[CHECKED_FROM:]).digest()
    return program[: CHECKED_FROM - len(digest)] + digest + program[CHECKED_FROM:]


def unpack(data: bytes, source: WeightsSource, feature_level: int) -> ContainerContent:
    """Returns the content of a container.

    source         of external weights, as `read_weights` has it
    feature_level  feature level of the runtime
    Raises ModelError with a one-sentence message if the container is corrupt or truncated, has
    another format, needs a higher feature level, or has weights outside of the folder.
    """
    _check_version(data)
    try:
        content = _unpack(data, source, feature_level)
        validate(content.lowered.model, feature_level)
    except _MALFORMED as error:
        says = " ".join(str(error).split())
        raise ModelError(f"the context is malformed ({says}); prepare the model again") from None
    return content


def split(data: bytes) -> tuple[np.ndarray[Any, Any], bytes, bytes]:
    """Returns the header, the program (header and tables), and the bytes that follow it.

    Raises ModelError if the checksum is wrong.
    """
    if len(data) < HEADER.dtype.itemsize:
        raise ModelError(CORRUPT)
    header = np.frombuffer(data, HEADER.dtype, 1)[0]
    size = int(header["program_size"])
    program, rest = data[:size], data[size:]
    if not HEADER.dtype.itemsize <= size <= len(data) or with_checksum(program) != program:
        raise ModelError(CORRUPT)
    if not rest.endswith(TERMINATOR):
        raise ModelError("the context is truncated; prepare the model again")
    return header, program, rest[: -len(TERMINATOR)]


def _check_version(data: bytes) -> None:
    if len(data) < _VERSION.size or not data.startswith(MAGIC):
        raise ModelError(
            "the data is not an ep-nnapi context, or is corrupt; prepare the model again"
        )
    version = int(_VERSION.unpack_from(data)[1])
    if version != FORMAT_VERSION:
        upgrade = "upgrade ep-nnapi or " if version > FORMAT_VERSION else ""
        raise ModelError(
            f"the context has format {version}, this version reads {FORMAT_VERSION}; "
            f"{upgrade}prepare the model again"
        )


def _unpack(data: bytes, source: WeightsSource, feature_level: int) -> ContainerContent:
    header, program, rest = split(data)
    needed = int(header["feature_level"])
    if needed > feature_level:
        raise ModelError(
            f"the context needs feature level {needed}, the runtime offers {feature_level}; "
            "prepare the model for that level"
        )
    if header["reserved"] or header["flags"] > MODEL_HAS_CHECKSUM:
        raise ValueError("it sets bits that have no meaning")
    reader = TableReader(program, {t.name: header[t.name].tolist() for t in TABLES})
    location = WeightsLocation(
        reader.text(header["weights_file"].tolist()),
        int(header["weights_offset"]),
        int(header["weights_size"]),
        int(header["weights_file_size"]),
        header["weights_sha256"].tobytes(),
    )
    weights = read_weights(location, rest, source)
    return ContainerContent(
        reader.lowered(weights),
        needed,
        weights.size,
        location.file or None,
        bool(header["flags"]),
    )
