"""A graph of Dynamo's for inference: its arguments are weights, inputs, sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import torch

from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.torch.structure import REAL_PARTS
from ep_nnapi.torch.views import hint, split

Selector: TypeAlias = Callable[[Sequence[object]], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class InferenceGraph:
    """A graph whose weights and numbers become constants; its sizes follow from its inputs.

    graph            returns new tensors
    tail             makes the results of Dynamo's graph, views included, of its arguments and of
                     these tensors; None if they are the results
    weights          positions of the parameters and buffers among the arguments
    inputs           positions of all other tensors
    sizes            positions of sizes: the position of a tensor that has it, and its dimension
    numbers          positions of other numbers; Dynamo passes a float as a tensor
    dynamic_shapes   of the inputs, as for torch.export
    """

    graph: torch.fx.GraphModule
    tail: Callable[..., object] | None
    weights: tuple[int, ...]
    inputs: tuple[int, ...]
    sizes: Mapping[int, tuple[int, int]]
    numbers: tuple[int, ...]
    dynamic_shapes: tuple[Mapping[int, object], ...]

    def module(self, arguments: Sequence[object]) -> BoundGraph:
        """Returns a module of the inputs alone, with the weights among `arguments`."""
        return BoundGraph(self, arguments)

    def examples(self, arguments: Sequence[object]) -> list[torch.Tensor]:
        """Returns inputs for torch.export, which marks those with dynamic sizes: aliases."""
        given = [arguments[i] for i in self.inputs]
        return [tensor.detach() for tensor in given if isinstance(tensor, torch.Tensor)]

    def numbers_of(self, arguments: Sequence[object]) -> tuple[object, ...]:
        """Returns the numbers among the arguments."""
        given = [arguments[i] for i in self.numbers]
        return tuple(map(_plain, given))

    def require_symbolic(self, exported: torch.export.ExportedProgram) -> None:
        """Raises ModelError if torch.export has fixed a size that is to stay symbolic."""
        placeholders = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
        for name, dynamic in zip(
            exported.graph_signature.user_inputs, self.dynamic_shapes, strict=True
        ):
            shape = placeholders[name].meta["val"].shape
            for dim in dynamic:
                if isinstance(shape[dim], int):
                    raise ModelError(
                        f"dimension {dim} of {name} varies, and torch.export finds that it must be "
                        f"{shape[dim]}"
                    )


class BoundGraph(torch.nn.Module):
    """A graph of Dynamo's with its weights and numbers, as a module of its inputs."""

    def __init__(self, graph: InferenceGraph, arguments: Sequence[object]) -> None:
        super().__init__()
        self._graph, self.body = graph, graph.graph
        numbers = zip(graph.numbers, graph.numbers_of(arguments), strict=True)
        self._count, self._numbers = len(arguments), dict(numbers)
        for position in graph.weights:
            self.register_buffer(f"weight_{position}", arguments[position])

    def forward(self, *inputs: torch.Tensor) -> object:
        """Returns the results of the graph."""
        graph = self._graph
        values = dict(self._numbers)
        values.update(zip(graph.inputs, inputs, strict=True))
        for position, (tensor, dim) in graph.sizes.items():
            values[position] = inputs[graph.inputs.index(tensor)].shape[dim]
        for position in graph.weights:
            values[position] = getattr(self, f"weight_{position}")
        given = [values[i] for i in range(self._count)]
        with torch.fx.traceback.preserve_node_meta():  # hands on modules and lines of source code
            return _Interpreter(self.body).run(*given)


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph with plain numbers in place of those that Dynamo passes as tensors."""

    def call_method(self, target: object, args: Sequence[object], kwargs: object) -> object:
        """Runs one node of kind call_method."""
        if target == "item" and isinstance(args[0], float):
            return args[0]
        return super().call_method(target, args, kwargs)


def selector(positions: Sequence[int]) -> Selector:
    """Returns a function that selects the items at these positions.

    >>> selector([2, 0])("abc"), selector([1])("abc"), selector([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(positions) > 1:
        return itemgetter(*positions)
    if positions:
        (only,) = positions
        return lambda items: (items[only],)
    return lambda items: ()


def inference_graph(graph: torch.fx.GraphModule) -> InferenceGraph:
    """Returns the graph with its arguments told apart.

    Raises ModelError for complex inputs, and where views cannot be told from what is computed.
    """
    head, tail = split(graph)
    placeholders = head.graph.find_nodes(op="placeholder")
    weights, inputs, sizes, numbers = [], [], {}, []
    values = [node.meta["example_value"] for node in placeholders]
    for i, (node, value) in enumerate(zip(placeholders, values, strict=True)):
        if not isinstance(value, torch.Tensor):
            size = _size_of_a_tensor(value, values)
            if size is None:
                numbers.append(i)
            else:
                sizes[i] = size
        elif "grapharg" in node.meta and node.meta["grapharg"].pass_arg_as_tensor:
            numbers.append(i)
        elif "_dynamo_static_input_type" in node.meta.get("tensor_dict", {}):
            weights.append(i)
        elif value.is_complex():
            raise ModelError(f"{node.name} is a complex tensor; {REAL_PARTS}")
        else:
            inputs.append(i)
    dynamic = tuple(dict.fromkeys(_symbolic(values[i]), torch.export.Dim.AUTO) for i in inputs)
    found = tuple(weights), tuple(inputs), sizes, tuple(numbers)
    return InferenceGraph(head, tail, *found, dynamic)


def _plain(number: object) -> object:
    """Returns a number that Dynamo passes as a tensor or, while it compiles, as a symbol."""
    if isinstance(number, torch.Tensor):
        return number.item()
    return hint(number) if isinstance(number, torch.SymInt) else number


def _size_of_a_tensor(number: object, values: Sequence[object]) -> tuple[int, int] | None:
    """Returns the position and the dimension of a tensor with that symbolic size."""
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            for dim in _symbolic(value):
                if str(value.shape[dim]) == str(number):
                    return i, dim
    return None


def _symbolic(value: torch.Tensor) -> list[int]:
    """Returns the dimensions of symbolic size."""
    return [d for d, size in enumerate(value.shape) if isinstance(size, torch.SymInt)]
