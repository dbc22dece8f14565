"""The backend `ep_nnapi` of torch.compile: each graph of Dynamo's becomes an NNAPI session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TypeAlias
from weakref import ref

import torch
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._guards import tracing

from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError, module_logger
from ep_nnapi.options.table import parse
from ep_nnapi.report.report import Report
from ep_nnapi.torch.export import to_onnx, traced
from ep_nnapi.torch.inference_graph import (
    InferenceGraph,
    OnlyViewsError,
    inference_graph,
    needs_gradients,
    selector,
)
from ep_nnapi.torch.tensor_session import TensorSession, session_of

Addresses: TypeAlias = tuple[int, ...]
_address = torch.Tensor.data_ptr
_version = attrgetter("_version")


def addresses(tensors: Sequence[torch.Tensor]) -> Addresses:
    """Returns where the data of tensors are, which tells the weights of two modules apart."""
    return tuple(map(_address, tensors))


class Weights:
    """Weights as they are now; keeps their memory, so that no others can be at their addresses.

    Not noticed are changes in place that PyTorch does not count: of tensors made in inference mode,
    of what `Tensor.data` returns, and through NumPy.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Notes these weights."""
        self._memory = [tensor.detach() for tensor in tensors]
        self._owners = [ref(tensor) for tensor in tensors]
        self._counting = [not tensor.is_inference() for tensor in tensors]
        self._all_count = all(self._counting)
        self._versions = self._versions_of(tensors)

    def changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """True if the weights, at the same addresses, were changed in place."""
        return self._versions != self._versions_of(tensors)

    def unused(self) -> bool:
        """True if one of the tensors was freed or has its data at another address."""
        owners = [owner() for owner in self._owners]
        return any(
            owner is None or _address(owner) != _address(memory)
            for owner, memory in zip(owners, self._memory, strict=True)
        )

    def _versions_of(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        if self._all_count:
            return list(map(_version, tensors))
        pairs = zip(tensors, self._counting, strict=True)
        return [_version(tensor) for tensor, counts in pairs if counts]


logger = module_logger(__name__)
MOST_NUMBERS = 8
"""Sets of numbers that a graph is compiled for, as many as Dynamo itself compiles a function."""
_TOO_MANY_NUMBERS = (
    f"a graph was called with {MOST_NUMBERS} different numbers and runs in PyTorch for others; "
    "give them as tensors"
)
_NO_GRADIENTS = (
    "the backend ep_nnapi is for inference and computes no gradients; call the compiled module "
    "under torch.inference_mode() or torch.no_grad()"
)
_NOT_SAVED = (
    "torch.compile cannot save what the backend ep_nnapi compiles; "
    "ep_nnapi.torch.to_nnapi(module, example_inputs).save(path) writes a prepared model"
)


_Key: TypeAlias = tuple[tuple[object, ...], Addresses]
"""Numbers, and the addresses of weights."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A session and the weights in it."""

    session: TensorSession
    weights: Weights


def ep_nnapi(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """Returns the function that runs a graph of Dynamo's on NNAPI, for inference.

    options   the provider's; `torch.compile(model, backend="ep_nnapi", options={...})`. And
              `gradients`: "eager" (the default) or "error", for results that require gradients
    A graph that cannot be a model runs in PyTorch, and a warning says why, for gradients one in a
    process. So do, without one, graphs that only make views. The logger `ep_nnapi` says at level
    INFO what NNAPI takes of the others. Raises OptionError for invalid options, and NnapiError for
    gradients where they are to be an error.
    """
    if mode is not None:
        raise OptionError(f"mode {mode!r} is for PyTorch's own backend inductor; give options")
    given = dict(options or {})
    gradients = given.pop("gradients", "eager")
    if gradients not in ("eager", "error"):
        raise OptionError(f"gradients is {gradients!r}; it must be 'eager' or 'error'")
    parse(given)
    forward: Callable[..., object] = graph.forward
    if needs_gradients(graph):
        if gradients == "error":
            raise NnapiError(_NO_GRADIENTS)
        _warn(f"graphs whose results require gradients run in PyTorch: {_NO_GRADIENTS}")
        return forward
    try:
        return CompiledGraph(inference_graph(graph), example_inputs, given)
    except OnlyViewsError:
        return forward
    except ModelError as error:
        count = sum(node.op.startswith("call") for node in graph.graph.nodes)
        logger.warning("a graph of %d operations runs in PyTorch: %s", count, error)
        return forward


@cache
def _warn(message: str) -> None:
    """Warns once in a process."""
    logger.warning("%s", message)


class CompiledGraph(SerializableCallable):
    """A graph as sessions: one for each set of numbers and the weights of each module.

    Dynamo has one graph for all modules of a class, and passes it their weights in each call.
    Of this type because `aot_compile` of torch.compile takes no other; it is not saved.
    """

    def __init__(
        self, graph: InferenceGraph, arguments: Sequence[object], options: Mapping[str, object]
    ) -> None:
        """Compiles the graph for arguments like these; raises ModelError if it cannot be."""
        self._graph, self._options, self._tail = graph, options, graph.tail
        self._inputs_of = selector(graph.inputs)
        self._weights_of: Callable[[Sequence[object]], Sequence[torch.Tensor]]
        self._weights_of = selector(graph.weights)
        compiled = self._compile(arguments)
        key = graph.numbers_of(arguments), addresses(self._weights_of(arguments))
        self._compiled: dict[_Key, _Loaded] = {key: compiled}
        self._only = None if graph.weights or graph.numbers else compiled

    @property
    def report(self) -> Report:
        """Report of the last partitioning: nodes on NNAPI, rejections."""
        return self.session.report

    @property
    def session(self) -> TensorSession:
        """The session that was made last."""
        return list(self._compiled.values())[-1].session

    def __call__(self, *arguments: object) -> object:
        """Returns the results of the graph."""
        compiled = self._only or self._compiled_for(arguments)
        computed: Sequence[torch.Tensor]
        if compiled is None:
            computed = self._graph.graph(*arguments)
        else:
            computed = compiled.session.run(self._inputs_of(arguments))
        return tuple(computed) if self._tail is None else self._tail(*arguments, *computed)

    def _compiled_for(self, arguments: Sequence[object]) -> _Loaded | None:
        """Returns what runs these arguments, made where needed; None: PyTorch runs them."""
        weights = self._weights_of(arguments)
        numbers = self._graph.numbers_of(arguments) if self._graph.numbers else ()
        key = numbers, addresses(weights)
        found = self._compiled.get(key)
        if found is not None and not found.weights.changed(weights):
            return found
        known = {numbers for numbers, _ in self._compiled}
        if numbers not in known:
            if len(known) == MOST_NUMBERS:
                return None
            if len(known) == MOST_NUMBERS - 1:
                logger.warning("%s", _TOO_MANY_NUMBERS)
        outdated = [k for k, c in self._compiled.items() if k == key or c.weights.unused()]
        if outdated:
            logger.info("the weights have changed: the graph is compiled again")
        for old in outdated:
            del self._compiled[old]
        self._compiled[key] = self._compile(arguments)
        return self._compiled[key]

    @classmethod
    def serialize_compile_artifacts(cls, fn: object) -> bytes:
        """Raises ModelError: there is another way to save a module."""
        raise ModelError(_NOT_SAVED)

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> object:
        """Raises ModelError: nothing of this type is saved."""
        raise ModelError(_NOT_SAVED)

    def _compile(self, arguments: Sequence[object]) -> _Loaded:
        graph = self._graph
        weights = Weights(self._weights_of(arguments))
        with tracing(None):  # or Dynamo, in the middle of compiling, would adopt export's guards
            exported, _ = traced(
                graph.module(arguments), graph.examples(arguments), {}, (graph.dynamic_shapes,)
            )
            graph.require_symbolic(exported)
            program = to_onnx(exported)
        session = session_of(program, self._options)
        logger.info("%s", session.report.summary)
        return _Loaded(session, weights)
