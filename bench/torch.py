"""Time of a call of a compiled PyTorch module, beyond the run of its session.

`torch.compile(model, backend="ep_nnapi")` and `to_nnapi` against `session.run` on the same arrays,
for a network of one node, so that little else is measured, and for one of 60 parameters and
buffers, which each call looks at. `floor` is a backend that runs the same session on the same
array and returns its argument, so what it takes beyond the session is Dynamo's own part. One
thread. Batches of calls take turns, as in a program that calls a module again and again; the CPU
time of the fastest hundredth counts, which other programs disturb least.

python -m bench torch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from statistics import quantiles
from time import process_time_ns

ONE_THREAD = {"intra_op_num_threads": 1}
BATCH = 10  # calls
BATCHES = 1000
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


def measured(layers: int) -> dict[str, float]:
    """The times of a network of that many linear layers with batch norms; 0: one ReLU."""
    import torch

    from ep_nnapi.torch import to_nnapi
    from ep_nnapi.torch.dynamo_backend import CompiledGraph
    from ep_nnapi.torch.inference_graph import inference_graph

    blocks = [(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)) for _ in range(layers)]
    module = torch.nn.Sequential(*(m for block in blocks for m in block), torch.nn.ReLU()).eval()
    example, compiled = torch.ones(2, 8), []

    def backend(graph: torch.fx.GraphModule, examples: list[object]) -> Callable[..., object]:
        compiled.append(CompiledGraph(inference_graph(graph), examples, ONE_THREAD))
        return compiled[-1]

    with torch.no_grad():
        ours, converted = (
            torch.compile(module, backend=backend),
            to_nnapi(module, example, **ONE_THREAD),
        )
        ours(example)
        session, array = compiled[0].session.session, example.numpy()
        name = session.get_inputs()[0].name

        def run() -> object:
            return session.run(None, {name: array})

        floor = torch.compile(module, backend=lambda *_: lambda *given: run() and given[-1:])
        floor(example)
        return times(
            {
                "session": run,
                "torch.compile": lambda: ours(example),
                "to_nnapi": lambda: converted(example),
                "floor": lambda: floor(example),
            }
        )


def main() -> None:
    """Prints a row for each network."""
    if find_spec("torch") is None:
        print("PyTorch is not installed; `make test-torch` sets up .venv-torch, which has it")
        return
    print(f"{'network':24} {'session µs':>10} {'torch.compile':>14} {'to_nnapi':>9} {'floor':>6}")
    for layers, name in ((0, "one ReLU"), (10, "10 linear, 10 batch norm")):
        found = measured(layers)
        print(
            f"{name:24} {found['session']:10.1f} {found['torch.compile']:14.1f}"
            f" {found['to_nnapi']:9.1f} {found['floor']:6.1f}"
        )
        over, dynamo = (found[road] - found["session"] for road in ("torch.compile", "floor"))
        print(
            f"  beyond the session: {over:.1f} µs of at most {MOST:.0f}; Dynamo alone {dynamo:.1f}"
        )


if __name__ == "__main__":
    main()
