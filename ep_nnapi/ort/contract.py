"""What the plugin asks of a provider: clusters for a graph, and a function to run each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import Array

Allocate: TypeAlias = Callable[[int, tuple[int, ...]], Array]
Stop: TypeAlias = Callable[[], None]


class Runner(Protocol):
    """A compiled cluster with the fused node's order of inputs and outputs; any threads."""

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes every output into the array that `allocate` gives for it.

        inputs     ONNX Runtime's buffers: valid during the call, not to be written
        allocate   (output index, shape) to the writable buffer of that output, once per output;
                   what is written there is the result
        stop       to be called between operations; what it raises ends the run
        """
        ...


class Cluster(Protocol):
    """Nodes that become one node of the session."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of the graph's nodes (the members of its GraphNodes) to fuse."""
        ...

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """The runner for inputs and outputs in this order."""
        ...


class Provider(Protocol):
    """Decides for one session; made when the session is made.

    error   what ended the planning of a graph: ONNX Runtime only logs it, and goes on without
    """

    error: Exception | None

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        """The clusters to take from `graph`, compiled.

        Constants of `graph` can be loaded during this call only and what they load is a view:
        copy what is kept. May be called again for the same graph and for inner graphs.
        """
        ...


OpenProvider: TypeAlias = Callable[[Mapping[str, str]], Provider]
