"""The partitions of the zoo beside those of ONNX Runtime's own way, with nodes that are declined.

For each network at its published size, and in 8 bits: with nothing declined, with every 20th, 10th,
5th and 2nd node or QDQ group, and at the feature levels that change its partition. Clusters,
kilobytes over their borders and estimated milliseconds by the model of a phone, for

    ours     connected clusters, as few as can be (partitioning=maximal)
    waves    groups as ONNX Runtime's own providers form them, of unconnected islands, too
    apart    the connected parts of those
    worth    what is worth it (partitioning=worth_it); nothing is on paper if all stays on the CPU

Nothing is compiled or run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial

import onnx

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from models import zoo
from partitioner import border_bytes, worth_it
from tests.faulty import FaultyDevice
from tests.partitioner.graphs import by_connected_waves, by_waves
from tests.partitions import Partition, declining, partitions_of

EVERY = (0, 20, 10, 5, 2)
IN_8_BITS = ("mobilenet_v2", "resnet18", "squeezenet1_1", "segmentation", "kws_dscnn")
SCHEME = "u8s8"
HEAD = ("clusters", "kB over borders", "estimated ms")
WAYS = ("ours", "waves", "apart", "worth")


class Blank:
    """A compiled model that only counts."""

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """Raises RuntimeFailure."""
        raise RuntimeFailure("ANeuralNetworksExecution_compute", "ANEURALNETWORKS_BAD_STATE")


class OnPaper(FaultyDevice):
    """Declines, but compiles nothing: plans need no more."""

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Nothing that runs."""
        return Blank()


def plans(model: bytes) -> Iterator[tuple[str, Partition]]:
    """The partitions of interest, each with what is special about it."""
    for every in EVERY:
        device = OnPaper(nodes=declining(model, every).nodes)
        yield f"every {every}." if every else "nothing", partitions_of(model, device)[0]
    before: object = None
    for level in range(8, 0, -1):
        found = partitions_of(model, OnPaper(), feature_level=level)[0]
        if before is not None and found.choice.clusters != before:
            yield f"level {level}", found
        before = found.choice.clusters


def row(found: Partition) -> str:
    """The numbers of the four ways."""
    able: set[Hashable] = set(found.capable)
    ways: tuple[Sequence[Sequence[Hashable]], ...] = (
        found.choice.clusters,
        by_waves(found.dag, able),
        by_connected_waves(found.dag, able),
        worth_it(found.dag, able, found.costs).clusters,
    )
    counts = " ".join(f"{len(way):6}" for way in ways)
    sizes = " ".join(f"{border_bytes(found.dag, way) / 1e3:6.0f}" for way in ways)
    times = " ".join(f"{found.estimate(way) / 1e3:6.1f}" for way in ways)
    return f"{len(able):5}  {counts}  {sizes}  {times} {found.estimate([]) / 1e3:6.1f}"


def main() -> None:
    """Prints one line for each network and way to decline."""
    names = " ".join(f"{way:>6}" for way in WAYS)
    print(f"{'':18} {'':9} {'':5}  " + "  ".join(f"{h:27}" for h in HEAD))
    print(f"{'model':18} {'declined':9} {'nodes':5}  {names}  {names}  {names} {'CPU':>6}")
    models: dict[str, Callable[[], onnx.ModelProto]] = dict(zoo.MODELS)
    models |= {f"{n} {SCHEME}": partial(zoo.quantized, n, SCHEME) for n in IN_8_BITS}
    for name, make in models.items():
        for what, found in plans(make().SerializeToString()):
            print(f"{name:18} {what:9} {row(found)}", flush=True)


if __name__ == "__main__":
    main()
