"""Time of a call of a compiled PyTorch module, beyond the run of its session.

`torch.compile`, the same with the module frozen, `aot_compile`, as docs/pytorch.md shows them, and
`to_nnapi` against `session.run` on the same arrays, for a network of one node, so that little else
is measured, and for one of 60 parameters and buffers. One thread. `Dynamo` is the same with a
backend that runs the session on the same array and returns its argument: no backend takes less.
Batches of calls take turns, as in a program that calls a module again and again; the CPU time of
the fastest hundredth counts, which other programs disturb least.

python -m bench torch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from statistics import quantiles
from time import process_time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ONE_THREAD = {"intra_op_num_threads": 1}
BATCH = 10  # calls
BATCHES = 300
ROADS = ("torch.compile", "frozen", "aot_compile", "to_nnapi")
MOST = 30.0  # µs that a compiled call may take beyond its session


def times(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of a call in the fastest hundredth of the batches."""
    spent: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(BATCHES):
        for name, call in calls.items():
            call()  # brings its code back into the caches
            started = process_time_ns()
            for _ in range(BATCH):
                call()
            spent[name].append(process_time_ns() - started)
    return {name: quantiles(found, n=100)[0] / 1000 / BATCH for name, found in spent.items()}


def network(layers: int) -> torch.nn.Module:
    """That many linear layers with batch norms, and a ReLU."""
    import torch

    blocks = [(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)) for _ in range(layers)]
    return torch.nn.Sequential(*(m for block in blocks for m in block), torch.nn.ReLU()).eval()


current: list[torch.nn.Module] = []


def scores(x: torch.Tensor) -> object:
    """What the last of the global modules makes of `x`."""
    return current[-1](x)


def compiled_ahead(
    backend: Callable[..., Callable[..., object]], example: torch.Tensor
) -> Callable[..., object]:
    """`scores` for arguments like the example, its parameters and buffers in the graph."""
    import torch

    with torch._dynamo.config.patch(install_free_tensors=True):
        compiled = torch.compile(scores, backend=backend, fullgraph=True)
        ready: Callable[..., object] = compiled.aot_compile(((example,), {}))
    return ready


def frozen(
    module: torch.nn.Module, backend: Callable[..., Callable[..., object]], example: torch.Tensor
) -> Callable[..., object]:
    """The module compiled as it is: its parameters in the graph, no guards on modules."""
    import torch

    compiled: Callable[..., object] = torch.compile(
        module,
        backend=backend,
        isolate_recompiles=True,
        options={"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe},
    )
    with torch._dynamo.config.patch(install_free_tensors=True):
        compiled(example)
    return compiled


def empty(run: Callable[[], object]) -> Callable[..., Callable[..., object]]:
    """A backend whose graphs call `run` and return their last argument."""
    from ep_nnapi.torch.dynamo_backend import CompiledGraph

    class Empty(CompiledGraph):
        """A graph without results of its own; `aot_compile` wants this type."""

        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, *given: object) -> object:
            run()
            return given[-1:]

    return Empty


def measured(layers: int) -> dict[str, float]:
    """The times of a network of that many linear layers; 0: one ReLU."""
    import torch

    from ep_nnapi.torch import to_nnapi
    from ep_nnapi.torch.dynamo_backend import CompiledGraph
    from ep_nnapi.torch.inference_graph import inference_graph

    module, example, graphs = network(layers), torch.ones(2, 8), []
    current.append(module)

    def ours(
        graph: torch.fx.GraphModule, examples: list[object], **_: object
    ) -> Callable[..., object]:
        graphs.append(CompiledGraph(inference_graph(graph), examples, ONE_THREAD))
        return graphs[-1]

    with torch.no_grad():
        roads = {"frozen": frozen(module, ours, example)}  # first: it would take the other's graph
        roads["torch.compile"] = torch.compile(module, backend=ours)
        session, array = graphs[0].session.session, example.numpy()
        name = session.get_inputs()[0].name

        def run() -> object:
            return session.run(None, {name: array})

        nothing = empty(run)
        roads["frozen, Dynamo"] = frozen(module, nothing, example)
        roads["torch.compile, Dynamo"] = torch.compile(module, backend=nothing)
        roads["aot_compile"] = compiled_ahead(ours, example)
        roads["aot_compile, Dynamo"] = compiled_ahead(nothing, example)
        roads["to_nnapi"] = to_nnapi(module, example, **ONE_THREAD)
        return times({"session": run} | {r: lambda f=f: f(example) for r, f in roads.items()})


def figures() -> dict[str, dict[str, float]]:
    """The times of both networks by their names."""
    networks = {"one ReLU": 0, "10 linear, 10 batch norm": 10}
    return {name: measured(layers) for name, layers in networks.items()}


def beyond(found: Mapping[str, float], road: str) -> tuple[float, float]:
    """What a road takes beyond its session, and what Dynamo takes of that."""
    session = found["session"]
    return found[road] - session, found.get(f"{road}, Dynamo", session) - session


def main() -> None:
    """Prints a row for each network and road."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    print(f"{'µs beyond session.run':24} {'all':>6} {'Dynamo':>7} {'ours':>6}   at most {MOST:.0f}")
    for name, found in figures().items():
        print(f"{name}: session.run {found['session']:.1f} µs")
        for road in ROADS:
            over, dynamo = beyond(found, road)
            print(f"  {road:22} {over:6.1f} {dynamo:7.1f} {over - dynamo:6.1f}")


if __name__ == "__main__":
    main()
