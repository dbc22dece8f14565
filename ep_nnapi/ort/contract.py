"""Protocols that the plugin requires: provider, cluster and runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import WeightsTarget
    from ep_nnapi.graph.graph import Graph
    from ep_nnapi.nnapi.array import Array
    from ep_nnapi.provider.direct_run import DirectRun
    from ep_nnapi.provider.run_events import Listener
    from ep_nnapi.report.report import Notice

Allocate: TypeAlias = Callable[[int, tuple[int, ...]], "Array"]
Stop: TypeAlias = Callable[[], None]


class Runner(Protocol):
    """Runs a compiled cluster with the fused node's order of inputs and outputs; thread-safe."""

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes each output into the array that `allocate` returns for it.

        inputs     arrays over ONNX Runtime's buffers: valid during the call, not to be written
        allocate   maps (output index, shape) to the writable buffer of that output; call it once
                   per output and write the result there
        stop       to be called between operations; an exception that it raises ends the run
        """
        ...


@runtime_checkable
class DirectRunner(Protocol):
    """A runner that sessions of ONNX Runtime may replace while no more is asked of it."""

    def direct_runs(self) -> Sequence[DirectRun]:
        """Returns the sessions and the tensors that they take, those that ran last first.

        They hold until the provider's options change or a listener comes.
        """
        ...


class Cluster(Protocol):
    """Nodes to fuse into one node of the session."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of the graph's nodes (the members of its GraphNodes) to fuse."""
        ...

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """Returns the runner for inputs and outputs in this order."""
        ...


class Provider(Protocol):
    """Chooses the nodes of one session that run on NNAPI; created with the session.

    error   exception that ended the planning of a graph; ONNX Runtime only logs it, and creates
            the session without this provider
    """

    error: Exception | None

    def begin(self, running: str) -> None:
        """Called once the provider has a session, with the version of ONNX Runtime."""
        ...

    def end(self) -> None:
        """Called when the session has ended."""
        ...

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        """Returns the compiled clusters to take from `graph`.

        Constants of `graph` can only be loaded during this call, as views: copy what is needed
        later. May be called again for the same graph and for subgraphs.
        """
        ...

    def set_dynamic_options(self, given: Mapping[str, str]) -> None:
        """Changes options for later runs; raises OptionError and changes none if one is invalid."""
        ...

    def start_run(self, given: Mapping[str, str]) -> None:
        """Sets options for the run that begins on this thread; raises OptionError."""
        ...

    def end_run(self) -> None:
        """Ends what `start_run` began, on the same thread."""
        ...

    @property
    def compatibility_info(self) -> str:
        """The conditions that the clusters are compiled for, stored with a compiled model."""
        ...

    @property
    def listeners(self) -> list[Listener]:
        """Functions called with each event of a run, from any thread; may be changed in place."""
        ...

    def contexts(self, clusters: Sequence[Cluster], target: WeightsTarget) -> Iterator[bytes]:
        """Yields the context of each cluster; its weights go to `target`, if not None."""
        ...

    def read_weights_by(self, read: Callable[[str], Array]) -> None:
        """Has EPContext nodes take their external weights from `read`, by name."""
        ...

    def notice(self) -> Notice:
        """Returns the line that the log of a session gets once all of its graphs are planned."""
        ...


OpenProvider: TypeAlias = Callable[[Mapping[str, str]], Provider]
