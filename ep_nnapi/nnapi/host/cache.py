"""Prepared models on disk, by the client's token: what was prepared once is read back.

A file holds the objects (pickled, names restricted to this package's) and, page by page behind
them, the arrays, which are mapped when read: processes share them. A file of another device,
code or model, a truncated or a damaged one counts as none, and is written anew.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import mmap
import os
import pickle
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

from ep_nnapi.nnapi.host.device import HostDevice, PreparedModel
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import BY_CODE

logger = logging.getLogger(__name__)

COUNTS: Counter[str] = Counter()
"""How often a model was `prepared`, `stored` and `restored` in this process."""

_MAGIC = b"ep-nnapi prepared model 1\n"
_PREFIX = struct.Struct(f"<{len(_MAGIC)}sIQI")
"""Magic, checksum of all that follows the prefix, bytes of the file, bytes of the head."""
_ALIGNMENT = 64
_OURS = ("ep_nnapi.nnapi.codes", "ep_nnapi.nnapi.host.", "ep_nnapi.nnapi.model")
_SHAPES = "ep_nnapi.nnapi.shapes"
_OTHERS = {
    "builtins": {"range", "slice"},
    "functools": {"partial"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
}


def prepared(device: HostDevice, model: Model, options: CompileOptions) -> PreparedModel:
    """`model` prepared by `device`, or read back where the options name a cache that has it."""
    if options.cache_dir is None or options.token is None:
        return _prepare(device, model, options)
    name = device.name.replace(os.sep, "_")
    path = Path(options.cache_dir, f"{options.token.hex()}.{name}.nnapi")
    about = fingerprint(device, model)
    found = _restore(path, about)
    if found is None:
        found = _prepare(device, model, options)
        _store(path, about, found)
    return found


def fingerprint(device: HostDevice, model: Model) -> str:
    """What a stored model must have in common with this one: device, code, model."""
    about = {
        "device": [device.name, device.version, device.feature_level],
        "code": [_code(), np.__version__, sys.version],
        "model": zlib.crc32("\n".join(_described(model)).encode()),
    }
    return json.dumps(about, sort_keys=True)


def _described(model: Model) -> Iterator[str]:
    """A line for each part of the model; the bytes of constants as a checksum."""
    yield f"{model.inputs} {model.outputs} {model.relaxed}"
    for operand in model.operands:
        yield f"{operand.type} {operand.dimensions} {operand.scale} {operand.zero_point}"
        yield f"{operand.channels}"
        if isinstance(operand.value, Data):
            yield f"{zlib.crc32(operand.value.bytes.data)}"
        elif isinstance(operand.value, Model):
            yield from _described(operand.value)
        else:
            yield f"{operand.value}"
    for operation in model.operations:
        yield f"{operation.spec.code} {operation.inputs} {operation.outputs}"


@functools.cache
def _code() -> int:
    """A checksum of the code that prepares and reads: objects of other code are strangers."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return functools.reduce(lambda sum_, path: zlib.crc32(path.read_bytes(), sum_), sources, 0)


def _prepare(device: HostDevice, model: Model, options: CompileOptions) -> PreparedModel:
    COUNTS["prepared"] += 1
    return device.prepare(model, options)


class _Pickler(pickle.Pickler):
    """Writes rows of the table of operations as their codes."""

    def persistent_id(self, obj: object) -> int | None:
        """The code of a row; None for anything else."""
        return obj.code if isinstance(obj, OperationSpec) else None


class _Unpickler(pickle.Unpickler):
    """Reads nothing but what a prepared model is made of."""

    def persistent_load(self, pid: int) -> OperationSpec:
        """The row of a code."""
        return BY_CODE[pid]

    def find_class(self, module: str, name: str) -> object:
        """A class or function of the runtime or of numpy's arrays; raises UnpicklingError."""
        ours = module.startswith((*_OURS, _SHAPES))
        if ours or name in _OTHERS.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a prepared model")


def _store(path: Path, about: str, model: PreparedModel) -> None:
    """Writes the file as a whole or not at all; a cache that cannot be written is no failure."""
    try:
        data = _packed(about, model)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
        temporary.replace(path)
    except (OSError, pickle.PicklingError, AttributeError, TypeError) as error:
        logger.warning("the prepared model is not cached: %s", error)
        return
    COUNTS["stored"] += 1


def _packed(about: str, model: PreparedModel) -> bytes:
    """The file's bytes: prefix, head (JSON), pickled objects, arrays."""
    objects, arrays = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(objects, protocol=5, buffer_callback=arrays.append).dump(model)
    parts = [objects.getbuffer(), *(a.raw() for a in arrays)]
    sizes = [part.nbytes for part in parts]
    head = json.dumps({"about": about, "sizes": sizes}).encode()
    body = bytearray(_PREFIX.size) + head
    for part in parts:
        body += bytes(-len(body) % _ALIGNMENT)
        body += part
    checksum = zlib.crc32(memoryview(body)[_PREFIX.size :])
    _PREFIX.pack_into(body, 0, _MAGIC, checksum, len(body), len(head))
    return bytes(body)


def _restore(path: Path, about: str) -> PreparedModel | None:
    """The model of the file; None for no file, or one that is not this model's, whole and sound."""
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        model = _unpacked(data, about)
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever a damaged file does to the reader, it is no file
        logger.warning("%s is ignored: %s", path, error)
        return None
    COUNTS["restored"] += 1
    return model


def _unpacked(data: memoryview, about: str) -> PreparedModel:
    magic, checksum, size, head_size = _PREFIX.unpack_from(data)
    if magic != _MAGIC or size != len(data) or checksum != zlib.crc32(data[_PREFIX.size :]):
        raise ValueError("it is no whole file of a prepared model")
    end = _PREFIX.size + head_size
    head = json.loads(bytes(data[_PREFIX.size : end]))
    if head["about"] != about:
        raise ValueError("it is of another device, code or model")
    parts = []
    for part in head["sizes"]:
        begin = end + -end % _ALIGNMENT
        end = begin + part
        parts.append(data[begin:end])
    model: PreparedModel = _Unpickler(io.BytesIO(parts[0]), buffers=parts[1:]).load()
    return model
