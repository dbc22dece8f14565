"""A prepared model on disk: checks of its containers, and the files that belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from ep_nnapi.diagnostics.inputs import InputSpec
from ep_nnapi.diagnostics.inspect_context import containers
from ep_nnapi.epcontext.container import ContainerContent, unpack
from ep_nnapi.epcontext.contexts import verify_checksum
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.files import require_file
from ep_nnapi.options.target import MAX_FEATURE_LEVEL


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """A prepared model whose digests are right.

    files          names of its own file and of those in its folder that it reads
    feature_level  the lowest NNAPI feature level that can run all of its clusters
    cpu_nodes      number of nodes that are left to ONNX Runtime's CPU provider
    inputs         of its cluster if that is the whole model; else None
    """

    files: tuple[str, ...]
    feature_level: int
    cpu_nodes: int
    inputs: tuple[InputSpec, ...] | None


def read_prepared_model(path: Path) -> PreparedModel:
    """Returns a prepared model after checking all digests; raises ModelError."""
    proto = _parsed(path)
    contents = [unpack(data, path.parent, MAX_FEATURE_LEVEL) for _, data in containers(proto)]
    if not contents:
        raise ModelError(
            f"{path} has no compiled cluster; make one with "
            f"ep-nnapi prepare {path} -o OUT --format context"
        )
    if any(content.model_has_checksum for content in contents):
        verify_checksum(path)
    beside = [content.file for content in contents if content.file is not None]
    names = dict.fromkeys([path.name, *beside, *_external_data(proto, path.parent)])
    nodes = sum(len(graph.node) for graph in graphs(proto.graph))
    return PreparedModel(
        tuple(names),
        max(content.feature_level for content in contents),
        nodes - len(contents),
        _inputs(contents[0]) if nodes == 1 else None,
    )


def _parsed(path: Path) -> ModelProto:
    require_file(path)
    try:
        return onnx.load_model_from_string(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (DecodeError, UnicodeDecodeError):
        raise ModelError(f"{path} is no ONNX model") from None


def _external_data(proto: ModelProto, folder: Path) -> Iterator[str]:
    """Yields the names of the files with the model's own weights; raises ModelError."""
    for graph in graphs(proto.graph):
        for tensor in graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL:
                continue
            name = next((e.value for e in tensor.external_data if e.key == "location"), "")
            path = folder / name
            if Path(name).name != name or path.resolve().parent != folder.resolve():
                raise ModelError(f"the model's weights {name!r} are outside of its folder")
            if not path.is_file():
                raise ModelError(f"{path}: no such file; it holds weights of the model")
            yield name


def _inputs(content: ContainerContent) -> tuple[InputSpec, ...]:
    """Returns the inputs; one that enters in two layouts is one."""
    entering = {c.name: c for c in content.lowered.border.inputs}.values()
    return tuple(InputSpec(c.name, c.dtype.numpy, c.shape) for c in entering)
