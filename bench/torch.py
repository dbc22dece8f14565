"""Time of a call of a compiled PyTorch module, beyond the run of its session.

`torch.compile`, `aot_compile` as docs/pytorch.md shows it, and `to_nnapi` against `session.run` on
the same arrays, for a network of one node, so that little else is measured, and for one of 60
parameters and buffers. One thread. `Dynamo` is the same with a backend that runs the session on the
same array and returns its argument: no backend takes less. Batches of calls take turns, as in a
program that calls a module again and again; the CPU time of the fastest hundredth counts, which
other programs disturb least.

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

    class Empty(CompiledGraph):
        """Runs the session and returns its argument."""

        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, *given: object) -> object:
            run()
            return given[-1:]

    with torch.no_grad():
        roads = {"torch.compile": torch.compile(module, backend=ours)}
        roads["torch.compile"](example)
        session, array = graphs[0].session.session, example.numpy()
        name = session.get_inputs()[0].name

        def run() -> object:
            return session.run(None, {name: array})

        roads["torch.compile, Dynamo"] = torch.compile(module, backend=Empty)
        roads["aot_compile"] = compiled_ahead(ours, example)
        roads["aot_compile, Dynamo"] = compiled_ahead(Empty, example)
        roads["to_nnapi"] = to_nnapi(module, example, **ONE_THREAD)
        return times({"session": run} | {r: lambda f=f: f(example) for r, f in roads.items()})


def main() -> None:
    """Prints a row for each network and road."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    print(f"{'µs beyond session.run':24} {'all':>6} {'Dynamo':>7} {'ours':>6}   at most {MOST:.0f}")
    for layers, name in ((0, "one ReLU"), (10, "10 linear, 10 batch norm")):
        found = measured(layers)
        print(f"{name}: session.run {found['session']:.1f} µs")
        for road in ("torch.compile", "aot_compile", "to_nnapi"):
            over = found[road] - found["session"]
            dynamo = found.get(f"{road}, Dynamo", found["session"]) - found["session"]
            print(f"  {road:22} {over:6.1f} {dynamo:7.1f} {over - dynamo:6.1f}")


if __name__ == "__main__":
    main()
