"""Random QDQ graphs, cut into layers, against the CPU provider without fused integer kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest

from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import Qdq

QUANTUM = 1  # see test_quantized
DEPTH = 8


@dataclass
class Drawn:
    """A graph being drawn: quantized values [1, C, H, W] by name with their shapes."""

    rng: np.random.Generator
    graph: Qdq
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def scale(self, low: float = 0.01, high: float = 0.2) -> q.Scale:
        """Some scale and zero point."""
        limits = np.iinfo(q.TYPES[self.graph.kind])
        zero = int(self.rng.integers(limits.min, limits.max + 1))
        return float(np.float32(np.exp(self.rng.uniform(np.log(low), np.log(high))))), zero

    def any(self) -> str:
        """Some value that there is."""
        return str(self.rng.choice(list(self.shapes)))

    def add(self, op_type: str, inputs: list[str], shape: tuple[int, ...], **attributes) -> None:
        """A group with some output scale, sometimes with an activation."""
        ends = [("Relu", ()), ("Clip", (0, 6)), ("Clip", (-1.1, 2.3)), None, None, None]
        end = ends[int(self.rng.integers(len(ends)))]
        out = self.graph.group(op_type, inputs, self.scale(), activation=end, **attributes)
        self.shapes[out] = shape


def conv(d: Drawn) -> None:
    x = d.any()
    _, channels, high, wide = d.shapes[x]
    kernel = int(d.rng.integers(1, 1 + min(3, high, wide)))
    depthwise = bool(d.rng.integers(2))
    units = channels if depthwise else int(d.rng.integers(1, 6))
    shape = (units, 1 if depthwise else channels, kernel, kernel)
    count = units if d.rng.integers(2) else 1
    steps = d.rng.uniform(0.002, 0.02, count).astype(np.float32)
    stored = d.rng.integers(-127, 128, shape).astype(np.int8)
    w = d.graph.weights(stored, steps if count > 1 else steps[0])
    given = [x, w]
    if d.rng.integers(2):
        product = (steps * np.float32(d.graph.scales[x][0])).astype(np.float32)
        added = d.rng.integers(-999, 999, units).astype(np.int32)
        given.append(d.graph.weights(added, product if count > 1 else product[0]))
    group = channels if depthwise else 1
    size = (1, units, high - kernel + 1, wide - kernel + 1)
    d.add("Conv", given, size, group=group)


def unary(op_type: str, **attributes: object) -> Callable[[Drawn], None]:
    def draw(d: Drawn) -> None:
        x = d.any()
        d.add(op_type, [x], d.shapes[x], **attributes)

    return draw


def binary(op_type: str) -> Callable[[Drawn], None]:
    def draw(d: Drawn) -> None:
        x = d.any()
        alike = [n for n, s in d.shapes.items() if s == d.shapes[x]]
        d.add(op_type, [x, str(d.rng.choice(alike))], d.shapes[x])

    return draw


def pool(op_type: str) -> Callable[[Drawn], None]:
    def draw(d: Drawn) -> None:
        x = d.any()
        n, c, high, wide = d.shapes[x]
        d.add(op_type, [x], (n, c, high, wide), kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    return draw


def concat(d: Drawn) -> None:
    x = d.any()
    n, c, high, wide = d.shapes[x]
    alike = [m for m, s in d.shapes.items() if s[2:] == (high, wide)]
    other = str(d.rng.choice(alike))
    d.add("Concat", [x, other], (n, c + d.shapes[other][1], high, wide), axis=1)


def transpose(d: Drawn) -> None:
    x = d.any()
    n, c, high, wide = d.shapes[x]
    d.add("Transpose", [x], (n, c, wide, high), perm=[0, 1, 3, 2])


def mean(d: Drawn) -> None:
    x = d.any()
    d.add("GlobalAveragePool", [x], (*d.shapes[x][:2], 1, 1))


DRAWS = [
    conv,
    conv,
    concat,
    transpose,
    mean,
    *(unary(o) for o in ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu", "Neg")),
    unary("Softmax", axis=1),
    *(binary(o) for o in ("Add", "Sub", "Mul", "Max", "Min")),
    *(pool(o) for o in ("MaxPool", "AveragePool")),
]


def drawn(seed: int) -> onnx.ModelProto:
    """A random graph of groups; all that nothing reads is an output."""
    rng = np.random.default_rng(seed)
    d = Drawn(rng, Qdq(str(rng.choice(["u8", "s8"]))))
    shape = (1, *(int(i) for i in rng.integers(1, 9, 3)))
    d.shapes[d.graph.input(shape, d.scale())] = shape
    for _ in range(DEPTH):
        DRAWS[int(rng.integers(len(DRAWS)))](d)
    read = {i for n in d.graph.nodes for i in n.input}
    return d.graph.model(*(name for name in d.shapes if name not in read))


def assert_layers_match(seed: int, level: int) -> None:
    model = drawn(seed)
    feeds = q.stored(model, seed)
    feeds |= q.quantized_tensors(model, feeds)
    cut = q.layers(model)
    given = {i.name: feeds[i.name] for i in cut.graph.input}
    off = q.apart(q.on_nnapi(cut, given, feature_level=level), q.on_cpu(cut, given))
    assert off <= QUANTUM, f"seed {seed}, level {level}: {off} quanta"


@pytest.mark.parametrize("seed", range(24))
def test_random_groups_match(seed: int) -> None:
    assert_layers_match(seed, level=8)


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_groups_match_on_older_levels(seed: int) -> None:
    assert_layers_match(seed, level=1 + seed % 5)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10, 20))
def test_thousands_of_random_groups_match(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        assert_layers_match(seed, level=1 + seed % 8)
