"""Lines of source code that nodes come from, as PyTorch's exporter records them in a model.

Source: torch.onnx.export(dynamo=True), metadata_props of nodes: `namespace`,
`pkg.torch.onnx.name_scopes` and `pkg.torch.onnx.stack_trace`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from onnx import ModelProto

from ep_nnapi.errors import SourceLine
from ep_nnapi.graph.onnx_io import all_nodes, mentions, read_model

_MARKS = (b"pkg.torch.onnx.", b"namespace")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in [^\n]*(?:\n +([^\n]*))?')
_OF_LIBRARY = re.compile(
    r"[/\\](?:(?:site|dist)-packages[/\\]torch|ep_nnapi[/\\]torch"
    r"|lib[/\\]python[\d.]+(?![/\\](?:site|dist)-packages[/\\]))[/\\]"
)  # frames of PyTorch, of this package and of Python itself
_NO_MODULE = "_empty_nn_module_stack"  # in the exporter's name of an operation outside any module
_LONGEST = 1 << 16  # characters of an entry that are read; a stack trace has a few thousand


@dataclass(frozen=True, slots=True)
class SourceLines:
    """Source lines of a model's nodes, by the names of nodes and of their outputs.

    ONNX Runtime's optimizations may rename a node, but keep the names of its outputs.
    """

    by_node: Mapping[str, SourceLine] = field(default_factory=dict)
    by_output: Mapping[str, SourceLine] = field(default_factory=dict)

    def of(self, name: str, outputs: Iterable[str] = ()) -> SourceLine | None:
        """The source line of the node with this name or one of these outputs, if it is known."""
        found = (self.by_output.get(output) for output in (*outputs, name))
        return self.by_node.get(name) or next((line for line in found if line is not None), None)


def source_lines(model: str | bytes) -> SourceLines:
    """The source lines that the nodes of an .onnx file, or its bytes, have in their metadata.

    A file without such metadata is not parsed. Empty for anything but a valid .onnx model.
    """
    proto = read_model(model, weights=False) if mentions(model, *_MARKS) else None
    return SourceLines() if proto is None else lines_of_nodes(_nodes(proto))


def lines_of_nodes(
    nodes: Iterable[tuple[str, Iterable[str], Mapping[str, str]]],
) -> SourceLines:
    """The source lines of nodes: of each the name, the names of its outputs and its metadata."""
    by_node: dict[str, SourceLine] = {}
    by_output: dict[str, SourceLine] = {}
    for name, outputs, metadata in nodes:
        entries = {key: value for key, value in metadata.items() if len(value) <= _LONGEST}
        line = source_line(_module(entries), entries.get("pkg.torch.onnx.stack_trace", ""))
        if line is not None:
            by_node.setdefault(name, line)
            by_output.update((output, line) for output in outputs if output)
    by_node.pop("", None)
    return SourceLines(by_node, by_output)


def source_line(module: str, stack_trace: str) -> SourceLine | None:
    """The module's path with the innermost line of the user's code in a Python stack.

    Where all of the stack is in PyTorch, its innermost line; None if nothing is known.
    """
    frames = _FRAME.findall(stack_trace)
    own = [frame for frame in frames if not _OF_LIBRARY.search(frame[0])]
    if not frames:
        return SourceLine(module) if module else None
    file, number, code = (own or frames)[-1]
    return SourceLine(module, file, int(number), code.strip())


def _nodes(proto: ModelProto) -> Iterator[tuple[str, Iterable[str], Mapping[str, str]]]:
    for node in all_nodes(proto.graph):
        yield node.name, node.output, {e.key: e.value for e in node.metadata_props}


def _module(entries: Mapping[str, str]) -> str:
    """The path of the module that computes a node: `layers.0.conv`; "" for the outermost one.

    The last scope is the operation itself, so the module is the one before.
    """
    try:
        scopes = ast.literal_eval(entries.get("pkg.torch.onnx.name_scopes", "[]"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        scopes = []
    if not isinstance(scopes, list) or not all(isinstance(s, str) for s in scopes) or not scopes:
        scopes = [s.partition(":")[0].strip() for s in entries.get("namespace", "").split("/")]
    module = str(scopes[-2]) if len(scopes) > 1 else ""
    return "" if module.startswith(_NO_MODULE) else module
