"""Access to ONNX model files: subgraphs, edits in place, and the size limit of a file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto

EXTERNAL_DATA_THRESHOLD = 1 << 30
"""Bytes above which weights become external data: Protocol Buffers are limited to 2 GB."""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yields the graph and all its subgraphs, recursively."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from graphs(inner)


def mentions(model: Path, text: bytes) -> bool:
    """True if the file contains the bytes; names in a model file are stored as plain text."""
    if model.stat().st_size == 0:
        return False
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0


@contextmanager
def edited(path: Path) -> Iterator[ModelProto]:
    """Context manager to edit an .onnx file in place; external data is neither read nor moved."""
    proto = onnx.load(str(path), load_external_data=False)
    yield proto
    onnx.save(proto, str(path))


@contextmanager
def temporary(out: Path, suffix: str) -> Iterator[Path]:
    """Context manager of a path like `out` with another suffix; deletes the file on exit."""
    path = out.with_suffix(suffix)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
