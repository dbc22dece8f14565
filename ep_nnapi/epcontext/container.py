"""Binary container of an EPContext node: the alternatives of one compiled cluster.

    header | tables | weights | end

The weights are embedded, or in a separate file next to the prepared model that is memory-mapped.
Loading is safe for untrusted data: no code, no pickles, and no path outside of the model's folder.
docs/context.md specifies the format, `ep_nnapi.epcontext.layout` declares its records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.epcontext.alternatives import Alternative, LaterAlternative, constants, everything
from ep_nnapi.epcontext.layout import (
    HEADER,
    MODEL_HAS_CHECKSUM,
    TABLES,
    TERMINATOR,
    AlternativeKind,
)
from ep_nnapi.epcontext.pool import ConstantPool, padded
from ep_nnapi.epcontext.tables import TableReader, TableWriter
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.native._native import ffi, lib
from ep_nnapi.native.calls import done
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL
from ep_nnapi.nnapi.errors import ModelError, SpecError
from ep_nnapi.nnapi.validate import validate

CORRUPT = "the context is corrupt or truncated; prepare the model again"


WeightsSource: TypeAlias = Path | Callable[[str], Array] | None
"""Where external weights are: in a folder, or what an application has under their name."""


@dataclass(frozen=True, slots=True)
class WeightsLocation:
    """Location of a container's weights: `size` bytes from `offset` in a file of `total` bytes.

    file    name of the file next to the model; empty if the weights are embedded
    sha256  digest of the weights
    """

    file: str
    offset: int
    size: int
    total: int
    sha256: bytes


def read_weights(location: WeightsLocation, embedded: bytes, source: WeightsSource) -> Array:
    """Returns the weights as bytes, memory-mapped if in a file, after checking their digest.

    embedded  what follows the container's header
    source    of external weights: the folder of the prepared model, or a function that returns what
              the application has under a name; None if the model was loaded from memory
    Raises ModelError.
    """
    if location.file:
        if embedded:
            raise ModelError(
                "the context is corrupt: data follows its header; prepare the model again"
            )
        weights = _external_weights(location, source)
    elif location.offset or location.total:
        raise ModelError(CORRUPT)
    else:
        weights = np.frombuffer(embedded, np.uint8)
    if weights.size != location.size:
        raise ModelError("the context's weights are truncated; prepare the model again")
    if _digest(weights, location, source) != location.sha256:
        raise ModelError("the context's weights are corrupt; prepare the model again")
    return weights


def _external_weights(location: WeightsLocation, source: WeightsSource) -> Array:
    if not callable(source):
        return _map_weights(location, source)
    content = source(location.file)
    if content.size != location.total:
        raise ModelError(
            f"the application's weights {location.file!r} have {content.size} bytes, not "
            f"{location.total}; prepare the model again"
        )
    return content[location.offset : location.offset + location.size]


def _map_weights(location: WeightsLocation, folder: Path | None) -> Array:
    name, offset, size = location.file, location.offset, location.size
    if folder is None:
        raise ModelError(f"the weights are in {name!r}; load the prepared model from its file")
    path = folder / name
    if Path(name).name != name or path.resolve().parent != folder.resolve():
        raise ModelError(f"the context's weights {name!r} are outside of the model's folder")
    if not path.is_file():
        raise ModelError(f"{path}: no such file; it holds the prepared model's weights")
    total = path.stat().st_size
    if offset < 0 or size < 0 or offset + size > total:
        raise ModelError(f"{path} is truncated; prepare the model again")
    if total != location.total:
        raise ModelError(f"{path} is corrupt: it has another size; prepare the model again")
    return _mapped(path, offset, size)


def _mapped(path: Path, offset: int, size: int) -> Array:
    """Returns a part of a file as a plain array, whose views are cheaper than those of a memmap."""
    if not size:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, "r", offset, (size,)))


def _digest(weights: Array, location: WeightsLocation, source: WeightsSource) -> bytes:
    """Returns the SHA-256 of the weights; that of a file is computed once while it is unchanged."""
    if not location.file or not isinstance(source, Path):
        return hashlib.sha256(weights.data).digest()
    path = source / location.file
    stat = path.stat()
    when = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    return _file_digest(path, location.offset, location.size, *when)


@lru_cache(maxsize=64)
def _file_digest(path: Path, offset: int, size: int, *_when: int) -> bytes:
    return hashlib.sha256(_mapped(path, offset, size).data).digest()


@dataclass(frozen=True, slots=True)
class Container:
    """A cluster's container before it is written, with embedded or external weights.

    writer              of its tables
    weights             blocks to write one after the other, each padded to `ALIGNMENT`
    size                bytes of all blocks with their padding
    model_has_checksum  True if the model's file will have a checksum, which readers then demand
    """

    alternatives: tuple[Alternative, ...]
    writer: TableWriter
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

    def _program(self, location: WeightsLocation) -> bytes:
        """Returns the header and the tables."""
        fields = {
            "flags": MODEL_HAS_CHECKSUM if self.model_has_checksum else 0,
            "weights_sha256": np.frombuffer(location.sha256, np.uint8),
            "weights_offset": location.offset,
            "weights_size": location.size,
            "weights_file_size": location.total,
        }
        return self.writer.program(location.file, fields)


@dataclass(frozen=True, slots=True)
class ContainerContent:
    """A container's content: the alternatives of its cluster, the preferred first.

    first               the preferred one
    later               the others, of which nothing is read before it is used
    weights             that all alternatives share
    digest              SHA-256 of the program
    file                name of the weights' file next to the model; None if they are embedded
    model_has_checksum  True if the model's file must have a checksum of itself
    """

    first: Alternative
    later: tuple[LaterAlternative, ...]
    weights: Array
    digest: bytes
    file: str | None
    model_has_checksum: bool

    @property
    def given(self) -> tuple[Alternative | LaterAlternative, ...]:
        """All alternatives."""
        return self.first, *self.later

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """All alternatives, read; raises ModelError."""
        return tuple(each.opened() for each in self.given)

    @property
    def lowered(self) -> Lowered:
        """The first NNAPI program; raises TypeError if there is none."""
        found = (a for a in self.given if a.kind is AlternativeKind.NNAPI)
        return next(found, self.first).opened().lowered

    @property
    def feature_level(self) -> int:
        """The lowest NNAPI feature level that can run it; 0 if it runs without NNAPI too."""
        return min(each.needed for each in self.given)


def pack(*given: Lowered | Alternative, model_has_checksum: bool = False) -> Container:
    """Returns the container of a cluster, which is lowered or given as its alternatives."""
    return pack_each([given], model_has_checksum=model_has_checksum)[0]


def pack_each(
    given: Sequence[Sequence[Lowered | Alternative]], *, model_has_checksum: bool = False
) -> list[Container]:
    """Returns a container for each of several clusters, over the same weights."""
    pool = ConstantPool()
    each = [
        tuple(Alternative.nnapi(g) if isinstance(g, Lowered) else g for g in one) for one in given
    ]
    for one in each:
        pool.expect(
            constant for alternative in everything(one) for constant in constants(alternative)
        )
    writers = [TableWriter(one, pool) for one in each]
    weights = tuple(pool.arrays)
    return [
        Container(one, writer, weights, pool.size, model_has_checksum)
        for one, writer in zip(each, writers, strict=True)
    ]


def unpack(data: bytes, source: WeightsSource, feature_level: int) -> ContainerContent:
    """Returns the content of a container.

    source         of external weights, as `read_weights` has it
    feature_level  feature level of the runtime
    Raises ModelError with a one-sentence message if the container is corrupt or truncated, has
    another format, needs a higher feature level, or has weights outside of the folder. Programs of
    several alternatives are not validated: `check_programs` does, or who compiles one.
    """
    with _malformed():
        content = _unpack(data, source, feature_level)
    if not content.later:
        check_programs([content.first])
    return content


def check_programs(alternatives: Sequence[Alternative]) -> None:
    """Raises ModelError if an NNAPI program of an alternative or of its parts is not valid.

    What their levels promise is the runtime's to check, which knows its own: it is in C.
    """
    with _malformed():
        for each in everything(alternatives):
            if each.model:
                validate(each.model, HIGHEST_LEVEL)


@contextmanager
def _malformed() -> Iterator[None]:
    try:
        yield
    except (SpecError, ValueError) as error:
        says = " ".join(str(error).split())
        raise ModelError(f"the context is malformed ({says}); prepare the model again") from None


def split(data: bytes) -> tuple[np.ndarray[Any, Any], bytes, bytes]:
    """Returns the header, the program (header and tables), and the bytes that follow it.

    What is not sound has to be refused before.
    """
    header = np.frombuffer(data, HEADER.dtype, 1)[0]
    size = int(header["program_size"])
    return header, data[:size], data[size : -len(TERMINATOR)]


class _Sound:
    """A container that C has found sound; raises ModelError for others."""

    def __init__(self, data: bytes) -> None:
        self._data, self._container = ffi.from_buffer(data), ffi.new("ctx_container *")
        done(ModelError, lib.ctx_read, self._data, len(data), self._container)

    def program(self, index: int) -> bytes:
        """Returns the program of a later alternative; raises ModelError."""
        place, own = ffi.new("uint8_t **"), ffi.new("ctx_container *")
        done(ModelError, lib.ctx_unpack, self._container, index, place, own)
        (header,) = np.frombuffer(ffi.buffer(place[0], HEADER.dtype.itemsize), HEADER.dtype)
        program = bytes(ffi.buffer(place[0], int(header["program_size"])))
        lib.free(place[0])
        return program


def _unpack(data: bytes, source: WeightsSource, feature_level: int) -> ContainerContent:
    sound = _Sound(data)
    header, program, rest = split(data)
    reader, location = _reader(header, program)
    weights = read_weights(location, rest, source)

    def opened(index: int) -> Alternative:
        program = sound.program(index)
        with _malformed():
            return _reader(np.frombuffer(program, HEADER.dtype, 1)[0], program)[0].first(weights)

    content = ContainerContent(
        reader.first(weights),
        reader.later(int(header["choices"]), opened),
        weights,
        header["sha256"].tobytes(),
        location.file or None,
        bool(header["flags"]),
    )
    if content.feature_level > feature_level:
        raise ModelError(
            f"the context needs feature level {content.feature_level}, the runtime offers "
            f"{feature_level}; prepare the model for that level"
        )
    return content


def _reader(header: np.ndarray[Any, Any], program: bytes) -> tuple[TableReader, WeightsLocation]:
    """Returns the reader of a program, and where its weights are."""
    reader = TableReader(program, {t.name: header[t.name].tolist() for t in TABLES})
    return reader, WeightsLocation(
        reader.text(header["weights_file"].tolist()),
        int(header["weights_offset"]),
        int(header["weights_size"]),
        int(header["weights_file_size"]),
        header["weights_sha256"].tobytes(),
    )
