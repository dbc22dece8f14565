"""A graph of Dynamo's for inference: its arguments told apart, its head and its tail.

The head computes new tensors, the tail makes views of them: Dynamo was promised the strides and
aliases that PyTorch has, for what comes after the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node

from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.torch.structure import REAL_PARTS

_CONSTANT = ("placeholder", "get_attr")


class OnlyViewsError(ModelError):
    """A graph does nothing but make views of its arguments."""


def split(graph: GraphModule) -> tuple[GraphModule, Callable[..., object] | None]:
    """Returns the head and the tail of a graph of Dynamo's.

    The head has the graph's arguments and returns a tuple of tensors, of which none is a view. The
    tail returns the graph's results from its arguments followed by those tensors, which may have
    other strides than in PyTorch; it is None if the tensors are the results as they are.

    A node is a view if its tensors have the memory of an argument's. Raises OnlyViewsError if all
    are, and ModelError if views cannot be told from what is computed.
    """
    _require_fixed_metadata(graph.graph)
    tail, heads = _parts(graph.graph)
    calls = [node for node in graph.graph.nodes if node.op not in (*_CONSTANT, "output")]
    if not heads:
        only_views = tail.issuperset(calls)
        raise (OnlyViewsError if only_views else ModelError)("it computes no new tensor")
    _require_own_memory(heads)
    (output,) = graph.graph.find_nodes(op="output")
    if list(output.args[0]) == heads and all(_layout(node) is None for node in heads):
        return graph, None
    return _head(graph, tail, heads), _tail(graph, tail, heads).forward


def needs_gradients(graph: GraphModule) -> bool:
    """True if results of a graph of Dynamo's require gradients, or what they are views of does."""
    tail, heads = _parts(graph.graph)
    nodes = (*heads, *tail) if torch.is_grad_enabled() else heads
    return any(tensor.requires_grad for node in nodes for tensor in _tensors(node))


def _parts(graph: Graph) -> tuple[set[Node], list[Node]]:
    """Returns the nodes that make results as views or numbers, and those they are made of."""
    tail: set[Node] = set()
    heads: dict[Node, None] = {}
    (output,) = graph.find_nodes(op="output")
    pending = list(output.all_input_nodes)
    while pending:
        node = _origin(pending.pop(0))
        if node in tail or node in heads:
            continue
        if node.op in _CONSTANT or not _tensors(node) or _is_view(node):
            tail.add(node)
            pending += node.all_input_nodes
        else:
            heads[node] = None
    return tail, list(heads)


def _origin(node: Node) -> Node:
    """Returns the node that made the tensor, where this one returns its argument itself.

    As do operations in place, and `contiguous` of what is contiguous.
    """
    value = node.meta.get("example_value")
    for argument in node.all_input_nodes:
        if isinstance(value, torch.Tensor) and argument.meta.get("example_value") is value:
            return _origin(argument)
    return node


def _is_view(node: Node) -> bool:
    if node.target is operator.getitem and len(node.all_input_nodes) == 1:
        (given,) = node.all_input_nodes
        if not isinstance(given.meta.get("example_value"), torch.Tensor):  # an item of a tuple
            return _is_view(given)
    memory = {_memory(tensor) for given in node.all_input_nodes for tensor in _tensors(given)}
    return any(_memory(tensor) in memory for tensor in _tensors(node))


def _tensors(node: Node) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _memory(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _require_fixed_metadata(graph: Graph) -> None:
    """Raises ModelError if the sizes or strides of a tensor change in place, as by `t_`."""
    for node in graph.nodes:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        packet = getattr(torch.ops.aten, name, None) if node.op.startswith("call") else None
        for overload in packet.overloads() if packet is not None else ():
            if torch.Tag.inplace_view in getattr(packet, overload).tags:
                raise ModelError(f"{name} changes the sizes or strides of a tensor in place")


def _require_own_memory(heads: Sequence[Node]) -> None:
    memory = [_memory(tensor) for node in heads for tensor in _tensors(node)]
    if len(set(memory)) < len(memory) or len(memory) > len(heads):
        raise ModelError("its results cannot be told from views of one another")


def _layout(head: Node) -> tuple[Callable[..., torch.Tensor], tuple[int, ...]] | None:
    """Returns the function that gives the tensor PyTorch's strides, and its argument.

    None if the strides are those of a contiguous array; NumPy has others where a size is 0.
    """
    value = head.meta["example_value"]
    sizes, strides = list(value.shape), list(value.stride())
    static = all(isinstance(number, int) for number in (*sizes, *strides))
    if str(_contiguous(sizes)) == str(strides) and not (static and 0 in sizes):
        return None
    if static:
        return _restrided, tuple(strides)
    hints = [hint(stride) for stride in strides]
    order = sorted(range(len(sizes)), key=lambda d: hints[d], reverse=True)
    if [hints[d] for d in order] != _contiguous([hint(sizes[d]) for d in order]):
        raise ModelError(f"a result has strides of {tuple(strides)} for sizes of {tuple(sizes)}")
    return _reordered, tuple(order)


def hint(number: int | torch.SymInt) -> int:
    """Returns the number that a symbolic one stands for in the example; -1 if it has none."""
    if isinstance(number, int):
        return number
    return int(number.node.hint) if number.node.has_hint() else -1


def _contiguous(sizes: Sequence[int]) -> list[int]:
    """Returns the strides of a contiguous tensor.

    >>> _contiguous([2, 3, 4]), _contiguous([2, 0, 4]), _contiguous([])
    ([12, 4, 1], [4, 4, 1], [])
    """
    inner = [1 if isinstance(size, int) and size == 0 else size for size in sizes[:0:-1]]
    return list(accumulate(inner, operator.mul, initial=1))[::-1] if sizes else []


def _restrided(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Returns the tensor with these strides: a copy if it has others."""
    if tensor.stride() == strides:
        return tensor
    return tensor.new_empty_strided(tensor.shape, strides).copy_(tensor)


def _reordered(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """Returns the tensor dense, its dimensions in this order from the largest stride."""
    strides = dict(zip(order, _contiguous([tensor.shape[d] for d in order]), strict=True))
    return _restrided(tensor, tuple(strides[d] for d in range(len(order))))


def _head(graph: GraphModule, members: set[Node], heads: Sequence[Node]) -> GraphModule:
    head = Graph()
    copies: dict[Node, Node] = {}
    head.graph_copy(graph.graph, copies)
    head.output(tuple(copies[node] for node in heads))
    for node in reversed(graph.graph.nodes):
        if node in members and node.op != "placeholder" and not copies[node].users:
            head.erase_node(copies[node])
    return GraphModule(graph, head)


def _tail(graph: GraphModule, members: set[Node], heads: Sequence[Node]) -> GraphModule:
    tail = Graph()
    copies: dict[Node, Node] = {}
    for node in graph.graph.find_nodes(op="placeholder"):
        copies[node] = tail.node_copy(node)
    given = [tail.placeholder(f"head_{i}") for i in range(len(heads))]
    for node, tensor in zip(heads, given, strict=True):
        layout = _layout(node)
        copies[node] = tail.call_function(layout[0], (tensor, layout[1])) if layout else tensor
    for node in graph.graph.nodes:
        if (node in members and node.op != "placeholder") or node.op == "output":
            copies[node] = tail.node_copy(node, lambda argument: copies[_origin(argument)])
    return GraphModule(graph, tail)


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

    def module(self, arguments: Sequence[object]) -> ModuleOfGraph:
        """Returns a module of the inputs alone, with the weights among `arguments`."""
        return ModuleOfGraph(self, arguments)

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


class ModuleOfGraph(torch.nn.Module):
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
