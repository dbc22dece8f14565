"""Files and size of a model's external data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, TensorProto

from ep_nnapi.graph.onnx_io import mentions


@dataclass(frozen=True, slots=True)
class ExternalData:
    """A model's external data: the files, and the number of bytes its tensors occupy in them."""

    files: tuple[Path, ...] = ()
    bytes: int = 0


def external_data_of(model: Path) -> ExternalData:
    """Returns the external data of a model; empty for .ort files and unreadable models."""
    if model.suffix.lower() == ".ort" or not mentions(model, b"location"):
        return ExternalData()
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except (DecodeError, UnicodeDecodeError):
        return ExternalData()
    places = [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor in _tensors(proto.graph)
        if tensor.data_location == TensorProto.EXTERNAL
    ]
    names = sorted({place["location"] for place in places if "location" in place})
    size = sum(_length(place, model.parent) for place in places)
    return ExternalData(tuple(model.parent / name for name in names), size)


def _length(place: Mapping[str, str], folder: Path) -> int:
    """Returns a tensor's size in bytes: its `length`, or else the rest of the file."""
    file = folder / place.get("location", "")
    if not file.is_file():
        return 0
    try:
        end = file.stat().st_size - int(place.get("offset", 0))
        return max(0, min(end, int(place.get("length", end))))
    except ValueError:  # malformed; ONNX Runtime reports it on load
        return 0


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (t for t in (attribute.t, *attribute.tensors) if t.external_data)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
