"""The backend `ep_nnapi` of torch.compile: each graph of Dynamo's becomes an NNAPI session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._guards import tracing

from ep_nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.options import parse
from ep_nnapi.report import Report
from ep_nnapi.torch.export import model_of, to_onnx, traced
from ep_nnapi.torch.inference_graph import InferenceGraph, Weights, inference_graph, selector
from ep_nnapi.torch.tensor_session import TensorSession

logger = logging.getLogger(__name__)
MOST_NUMBERS = 8
"""Sets of numbers that a graph is compiled for, as many as Dynamo itself compiles a function."""
_TOO_MANY_NUMBERS = (
    f"a graph was called with {MOST_NUMBERS} different numbers and runs in PyTorch for others; "
    "give them as tensors"
)
_NOT_SAVED = (
    "torch.compile cannot save what the backend ep_nnapi compiles; "
    "ep_nnapi.torch.to_nnapi(module, example_inputs).save(path) writes a prepared model"
)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A session, the function that builds the results of its outputs, and the weights in it."""

    session: TensorSession
    result_of: Callable[[Sequence[torch.Tensor]], object]
    weights: Weights


def ep_nnapi(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """Returns the function that runs a graph of Dynamo's on NNAPI, for inference.

    options   the provider's; `torch.compile(model, backend="ep_nnapi", options={...})`
    A graph that cannot be a model runs in PyTorch, and a warning says why. The logger `ep_nnapi`
    says at level INFO what NNAPI takes of the others. Raises OptionError for invalid options and
    NnapiError if gradients would be needed.
    """
    if mode is not None:
        raise OptionError(f"mode {mode!r} is for PyTorch's own backend inductor; give options")
    parse(options or {})
    _require_no_gradients([*example_inputs, *graph.parameters()])
    try:
        return CompiledGraph(inference_graph(graph), example_inputs, options or {})
    except ModelError as error:
        count = sum(node.op.startswith("call") for node in graph.graph.nodes)
        logger.warning("a graph of %d operations runs in PyTorch: %s", count, error)
        forward: Callable[..., object] = graph.forward
        return forward


def _require_no_gradients(tensors: Sequence[object]) -> None:
    if torch.is_grad_enabled() and any(
        isinstance(given, torch.Tensor) and given.requires_grad for given in tensors
    ):
        raise NnapiError(
            "the backend ep_nnapi is for inference and computes no gradients: call the compiled "
            "module under torch.inference_mode() or torch.no_grad()"
        )


class CompiledGraph(SerializableCallable):
    """A graph as a session, made again for other weights and for each set of numbers.

    Of this type because `aot_compile` of torch.compile takes no other; it is not saved.
    """

    def __init__(
        self, graph: InferenceGraph, arguments: Sequence[object], options: Mapping[str, object]
    ) -> None:
        """Compiles the graph for arguments like these; raises ModelError if it cannot be."""
        self._graph, self._options = graph, options
        self._inputs_of = selector(graph.inputs)
        first = graph.numbers_of(arguments)
        self._compiled = {first: self._compile(arguments)}

    @property
    def report(self) -> Report:
        """Report of the partitioning for the last set of numbers: nodes on NNAPI, rejections."""
        return self.session.report

    @property
    def session(self) -> TensorSession:
        """The session for the last set of numbers."""
        return list(self._compiled.values())[-1].session

    def __call__(self, *arguments: object) -> object:
        """Returns the results of the graph."""
        numbers = self._graph.numbers_of(arguments) if self._graph.numbers else ()
        compiled = self._compiled.get(numbers)
        if compiled is None:
            if len(self._compiled) == MOST_NUMBERS:
                return self._graph.graph(*arguments)
            compiled = self._compiled[numbers] = self._compile(arguments)
            if len(self._compiled) == MOST_NUMBERS:
                logger.warning("%s", _TOO_MANY_NUMBERS)
        elif self._graph.weights and compiled.weights.changed(arguments):
            logger.info("the weights have changed: the graph is compiled again")
            compiled = self._compiled[numbers] = self._compile(arguments)
        return compiled.result_of(compiled.session.run(self._inputs_of(arguments)))

    @classmethod
    def serialize_compile_artifacts(cls, fn: object) -> bytes:
        """Raises ModelError: there is another way to save a module."""
        raise ModelError(_NOT_SAVED)

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> object:
        """Raises ModelError: nothing of this type is saved."""
        raise ModelError(_NOT_SAVED)

    def _compile(self, arguments: Sequence[object]) -> _Compiled:
        graph = self._graph
        weights = Weights(arguments, graph.weights)
        with tracing(None):  # or Dynamo, in the middle of compiling, would adopt export's guards
            exported, results = traced(
                graph.module(arguments), graph.examples(arguments), {}, (graph.dynamic_shapes,)
            )
            graph.require_symbolic(exported)
            program = to_onnx(exported)
        with model_of(program) as model:
            session = TensorSession(model, self._options)
        logger.info("%s", session.report.summary)
        return _Compiled(session, results.builder(), weights)
