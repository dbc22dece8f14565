"""One node with attributes and sizes at and past every limit, drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

# At and beside what counts as a limit somewhere: of windows, of memory, of 32 bits, of 64 bits.
EXTREMES = (
    *(0, -1, -2, -7, -(2**15), -(2**31), -(2**31) - 1, -(2**63)),
    *(5, 64, 1000, 3000, 30_000, 2**16, 2**20, 2**24, 2**28, 2**29, 2**30),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1),
)
IR_VERSION = 10


@dataclass
class Draw:
    """A node being drawn; `inputs` are fed, `constants` are initializers."""

    seed: int
    op_type: str = ""
    random: random.Random = field(init=False)
    opset: int = 17
    names: list[str] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def integer(self, *usual: int, extreme: float = 0.35) -> int:
        """One of the usual numbers, or an extreme one."""
        if self.random.random() < extreme:
            return self.random.choice(EXTREMES)
        return self.random.choice(usual)

    def integers(self, count: int, *usual: int, extreme: float = 0.35) -> list[int]:
        """So many; extreme ones are mostly all the same."""
        if self.random.random() < extreme:
            return [self.random.choice(EXTREMES)] * count
        if self.random.random() < extreme / 3:
            return [self.integer(*usual) for _ in range(count)]
        return [self.random.choice(usual) for _ in range(count)]

    def some(self, **attributes: Callable[[], object]) -> None:
        """Each of the attributes or not."""
        for name, value in attributes.items():
            if self.random.random() < 0.6:
                self.attributes[name] = value()

    def feed(self, *shape: int, dtype: type = np.float32) -> None:
        """An input with small numbers."""
        rng, name = np.random.default_rng(self.seed), f"x{len(self.names)}"
        numbers = rng.integers(-8, 8, shape) / (1 if np.issubdtype(dtype, np.integer) else 4)
        self.feeds[name] = np.asarray(numbers, dtype)
        self.names.append(name)

    def give(self, numbers: object, dtype: type = np.int64) -> None:
        """An initializer as input."""
        name = f"x{len(self.names)}"
        self.constants[name] = np.asarray(numbers, dtype)
        self.names.append(name)

    def image(self) -> int:
        """Feeds an image of two dimensions; returns how many channels it has."""
        channels = self.random.choice((1, 2, 4))
        size = self.random.choice((1, 4, 8, 9))
        self.feed(1, channels, size, self.random.choice((size, 8)))
        return channels

    def model(self) -> onnx.ModelProto:
        """The model of the one node."""
        outs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op_type, self.names, outs, "drawn", **self.attributes)
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.feeds.items()
        ]
        given = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        results = [onnx.ValueInfoProto(name=o) for o in outs]
        graph = helper.make_graph([node], "limits", inputs, results, given)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
