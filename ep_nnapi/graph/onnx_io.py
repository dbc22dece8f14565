"""ONNX models as files: all their graphs, and how large a file can be."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto

EXTERNAL_ABOVE = 1 << 30
"""Bytes above which weights go into a file beside the model: Protocol Buffers end at 2 GB."""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph and all inner graphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from graphs(inner)


def mentions(model: Path, text: bytes) -> bool:
    """Whether the bytes are anywhere in the file: the names of its parts are plain text."""
    if model.stat().st_size == 0:
        return False
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0


@contextmanager
def edited(path: Path) -> Iterator[ModelProto]:
    """The model of an .onnx file, to be changed; weights in files beside it stay there unread."""
    proto = onnx.load(str(path), load_external_data=False)
    yield proto
    onnx.save(proto, str(path))


@contextmanager
def temporary(out: Path, suffix: str) -> Iterator[Path]:
    """A name beside `out` with another suffix; the file is gone afterwards."""
    path = out.with_suffix(suffix)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
