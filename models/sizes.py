"""The sizes of a zoo model's inputs, some of them symbolic."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

import onnx

from models.builder import Dim, Graph, Tensor
from models.statistics import Statistics, measured


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model to build; those of "batch" and "size" in `dynamic` become symbolic."""

    batch: int
    size: int
    dynamic: frozenset[str] = frozenset()

    def n(self) -> Dim:
        """The batch dimension, a number or "batch"."""
        return "batch" if "batch" in self.dynamic else self.batch

    def along(self, name: str) -> Dim:
        """A dimension as long as `size`, a number or `name`."""
        return name if "size" in self.dynamic else self.size

    def image(self, g: Graph, channels: int = 3) -> Tensor:
        """A graph input `image` [N, channels, size, size]."""
        return g.input("image", (self.n(), channels, self.along("height"), self.along("width")))


ANY = range(1, 2**16)  # beyond, no tensor of these networks fits a computer
Net = Callable[[Graph, Sizes], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Builds one model of the zoo.

    `net` adds the model's inputs, nodes and outputs to a graph; `size` is the published size of
    the input; `dynamic` says what may be symbolic.
    """

    net: Net
    size: int
    dynamic: frozenset[str] = frozenset({"batch", "size"})
    sizes: range = ANY
    batches: range = ANY

    def __call__(
        self,
        *,
        batch: int = 1,
        size: int | None = None,
        seed: int = 0,
        dynamic: Collection[str] = (),
    ) -> onnx.ModelProto:
        """The model; equal arguments give equal bytes.

        Raises ValueError for sizes that the network cannot have.
        """
        name = self.net.__name__
        size = self.size if size is None else size
        if unknown := sorted(set(dynamic) - self.dynamic):
            only = ", ".join(sorted(self.dynamic)) or "nothing"
            raise ValueError(f"{name}: {unknown[0]} cannot be dynamic here, only {only}")
        for what, number, allowed in (("size", size, self.sizes), ("batch", batch, self.batches)):
            if number not in allowed:
                raise ValueError(f"{name}: {what} {number} is not {described(allowed)}")
        model = drawn(self.net, Sizes(batch, size, frozenset(dynamic)), seed)
        sample = Sizes(min(4, self.batches[-1]), min(self.size, 128))
        statistics = running_statistics(self.net, sample, seed)
        for weight in model.graph.initializer:
            if weight.name in statistics:
                weight.raw_data = statistics[weight.name].tobytes()
        return model


def drawn(net: Net, sizes: Sizes, seed: int) -> onnx.ModelProto:
    """`net` with random weights, before batch norm's statistics are set."""
    g = Graph(net.__name__, seed)
    net(g, sizes)
    return g.model()


@cache
def running_statistics(net: Net, sizes: Sizes, seed: int) -> Statistics:
    """Batch norm's statistics, measured at `sizes` for all sizes: they are a network's weights."""
    return measured(drawn(net, sizes, seed))


def described(numbers: range) -> str:
    """`numbers` in words.

    >>> described(range(16, 65, 16)), described(range(1, 2))
    ('one of 16, 32, ... 64', '1')
    """
    if len(numbers) == 1:
        return str(numbers[0])
    return f"one of {numbers[0]}, {numbers[1]}, ... {numbers[-1]}"
