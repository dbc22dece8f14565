"""Networks whose sizes change from run to run: decoders with a cache, an encoder, a detector.

Small ones with the operators of the real ones, as PyTorch exports them; weights are random.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto

from models import text
from models.builder import Graph, Tensor
from models.layers import centred, conv, linear
from models.sizes import Sizes

WIDTH, LAYERS, HEADS, VOCABULARY, POSITIONS = 256, 4, 8, 1000, 512
DIM = WIDTH // HEADS


@dataclass(frozen=True)
class Decoder:
    """A kind of decoder.

    keys    heads of keys and values
    rotary  positions turn queries and keys, otherwise they are added to the tokens
    gated   the feed-forward layer has a gate, and normalization no mean
    biased  products have biases
    cap     scores are cap * tanh(scores / cap)
    states  of an encoder that the decoder attends to; 0 for none
    """

    keys: int = HEADS
    rotary: bool = True
    gated: bool = True
    biased: bool = False
    cap: float = 0
    states: int = 0

    def model(self) -> onnx.ModelProto:
        """Tokens `ids` [1, length] after `past` ones give `logits`, and the longer caches."""
        g = Graph("decoder")
        ids = g.input("ids", (1, "length"), TensorProto.INT64)
        states = g.input("states", (1, self.states, WIDTH)) if self.states else None
        shape = (1, self.keys, "past", DIM)
        caches = [g.input(f"{n}{i}", shape) for i in range(LAYERS) for n in ("key", "value")]
        before, count = g.add("Shape", caches[0], start=2, end=3), g.add("Shape", ids, start=1)
        total = g.add("Add", before, count)
        places, every = (_range(g, first, total) for first in (before, g.ints(0)))
        shown = g.add("LessOrEqual", every, g.add("Unsqueeze", places, g.ints(1)))
        mask = g.add("Where", shown, g.scalar(0), g.scalar(-1e9))
        x = g.add("Gather", g.normal(VOCABULARY, WIDTH, std=1), ids).wide(WIDTH)
        if not self.rotary:
            x = g.add("Add", x, g.add("Gather", g.normal(POSITIONS, WIDTH, std=0.1), places))
        turns = [g.add("Gather", _angles(g, f), places) for f in (np.cos, np.sin)]
        for i in range(LAYERS):
            x = self._layer(g, x, caches[2 * i : 2 * i + 2], mask, turns, states, i)
        g.output(self._product(g, self._norm(g, x), VOCABULARY), "logits")
        return g.model()

    def _layer(
        self,
        g: Graph,
        x: Tensor,
        cache: list[Tensor],
        mask: Tensor,
        turns: list[Tensor],
        states: Tensor | None,
        number: int,
    ) -> Tensor:
        y = self._norm(g, x)
        q, k, v = (_heads(g, self._product(g, y, n * DIM), n) for n in (HEADS, *[self.keys] * 2))
        if self.rotary:
            q, k = (_turned(g, each, turns) for each in (q, k))
        k, v = (g.add("Concat", old, new, axis=2) for old, new in zip(cache, (k, v), strict=True))
        x = g.add("Add", x, self._attended(g, q, k, v, mask))
        if states is not None:
            y = self._norm(g, x)
            q, *kv = (_heads(g, self._product(g, of, WIDTH), HEADS) for of in (y, states, states))
            x = g.add("Add", x, self._attended(g, q, kv[0], kv[1], None))
        for name, tensor in (("key", k), ("value", v)):
            g.output(tensor, f"new_{name}{number}")
        return g.add("Add", x, self._fed_forward(g, self._norm(g, x))).wide(WIDTH)

    def _attended(self, g: Graph, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None and self.keys < HEADS:
            k, v = (_repeated(g, each, self.keys) for each in (k, v))
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=(0, 1, 3, 2)))
        scores = g.add("Mul", scores, g.scalar(1 / sqrt(DIM)))
        if self.cap:
            bounded = g.add("Tanh", g.add("Div", scores, g.scalar(self.cap)))
            scores = g.add("Mul", bounded, g.scalar(self.cap))
        if mask is not None:
            scores = g.add("Add", scores, mask)
        y = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
        joined = g.add("Reshape", g.add("Transpose", y, perm=(0, 2, 1, 3)), g.ints(0, 0, WIDTH))
        return self._product(g, joined.wide(WIDTH), WIDTH)

    def _fed_forward(self, g: Graph, x: Tensor) -> Tensor:
        up = self._product(g, x, 2 * WIDTH)
        if not self.gated:
            return self._product(g, text.gelu(g, up).wide(2 * WIDTH), WIDTH)
        gate = self._product(g, x, 2 * WIDTH)
        open_gate = g.add("Mul", gate, g.add("Sigmoid", gate))
        return self._product(g, g.add("Mul", open_gate, up).wide(2 * WIDTH), WIDTH)

    def _norm(self, g: Graph, x: Tensor) -> Tensor:
        scale = g.uniform(WIDTH, low=0.8, high=1.2)
        if not self.gated:
            return g.add("LayerNormalization", x, scale, g.normal(WIDTH, std=0.1), axis=-1)
        squares = g.add("ReduceMean", g.add("Mul", x, x), axes=(-1,))
        root = g.add("Sqrt", g.add("Add", squares, g.scalar(1e-6)))
        return g.add("Mul", g.add("Div", x, root), scale).wide(WIDTH)

    def _product(self, g: Graph, x: Tensor, units: int) -> Tensor:
        y = g.add("MatMul", x, g.normal(x.width, units, std=1 / sqrt(x.width))).wide(units)
        return g.add("Add", y, g.normal(units, std=0.1)) if self.biased else y


def _range(g: Graph, first: Tensor, limit: Tensor) -> Tensor:
    ends = (g.add("Squeeze", each) for each in (first, limit))
    return g.add("Range", *ends, g.weight(np.array(1), "one"))


def _angles(g: Graph, function: np.ufunc) -> Tensor:
    rates = np.tile(10000.0 ** -np.linspace(0, 1, DIM // 2), 2)
    return g.weight(function(np.arange(POSITIONS)[:, None] * rates).astype(np.float32))


def _heads(g: Graph, x: Tensor, count: int) -> Tensor:
    split = g.add("Reshape", x, g.ints(0, 0, count, DIM))
    return g.add("Transpose", split, perm=(0, 2, 1, 3))


def _turned(g: Graph, x: Tensor, turns: list[Tensor]) -> Tensor:
    cos, sin = turns
    left, right = g.add_many("Split", [x, g.ints(DIM // 2, DIM // 2)], 2, axis=3)
    across = g.add("Concat", g.add("Neg", right), left, axis=3)
    return g.add("Add", g.add("Mul", x, cos), g.add("Mul", across, sin))


def _repeated(g: Graph, x: Tensor, keys: int) -> Tensor:
    """Each head for as many queries as share it, of sizes that the shape of `x` has."""
    length, times = g.add("Shape", x, start=2, end=3), HEADS // keys
    wide = g.add("Concat", g.ints(1, keys, times), length, g.ints(DIM), axis=0)
    each = g.add("Expand", g.add("Unsqueeze", x, g.ints(2)), wide)
    return g.add("Reshape", each, g.add("Concat", g.ints(1, HEADS), length, g.ints(DIM), axis=0))


DECODERS = {
    "llama": Decoder(keys=2),
    "qwen2": Decoder(keys=2, biased=True),
    "gemma2": Decoder(keys=4, cap=50),
    "gpt2": Decoder(rotary=False, gated=False, biased=True),
    "whisper": Decoder(rotary=False, gated=False, biased=True, states=50),
}


def roberta() -> onnx.ModelProto:
    """The zoo's text encoder with positions that count the tokens of the mask, as RoBERTa's do."""
    g, shape = Graph("roberta"), ("batch", "tokens")
    names = ("input_ids", "attention_mask")
    ids, mask = (g.input(name, shape, TensorProto.INT64) for name in names)
    narrow = g.add("Cast", mask, to=TensorProto.INT32)
    counted = g.add("CumSum", narrow, g.weight(np.array(1)))
    places = g.add("Add", g.add("Mul", counted, narrow), g.weight(np.array(1, np.int32)))
    x = g.add("Gather", text.table(g, VOCABULARY), ids)
    x = g.add("Add", x, g.add("Gather", text.table(g, POSITIONS + 2), places)).wide(text.WIDTH)
    shown = g.add("Cast", g.add("Unsqueeze", mask, g.ints(1, 2)), to=TensorProto.FLOAT)
    shut = g.add("Mul", g.add("Sub", g.scalar(1), shown), g.scalar(-1e4))
    for _ in range(2):
        y = linear(g, text.attention(g, text.layer_norm(g, x), shut), text.WIDTH)
        x = g.add("Add", x, y)
        up = text.gelu(g, linear(g, text.layer_norm(g, x), 4 * text.WIDTH))
        x = g.add("Add", x, linear(g, up, text.WIDTH))
    g.output(x, "last_hidden_state")
    return g.model()


def detector() -> onnx.ModelProto:
    """Boxes [N, cells, 4] and scores [N, cells, 20] of a pyramid of two levels of `image`."""
    g = Graph("detector")
    x = Sizes(1, 0, frozenset({"batch", "size"})).image(g)
    levels = []
    for channels in (16, 32, 64, 128):
        x = g.add("Relu", conv(g, x, channels, centred(3, 2)))
        levels.append(x)
    fine, coarse = levels[-2:]
    sizes = (g.add("Shape", fine, start=2), g.add("Shape", coarse, start=0, end=2))
    to = g.add("Concat", sizes[1], sizes[0], axis=0)
    up = g.add("Resize", coarse, None, None, to, mode="nearest")
    fine = g.add("Concat", fine, up, axis=1).wide(64 + 128)
    found = [_predicted(g, level, 8 * 2**i) for i, level in enumerate((fine, coarse))]
    for name, parts in zip(("boxes", "scores"), zip(*found, strict=True), strict=True):
        g.output(g.add("Concat", *parts, axis=1), name)
    return g.model()


def _predicted(g: Graph, x: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Boxes in pixels around the cells of a level, and scores."""
    y = conv(g, g.add("Relu", conv(g, x, 64, centred(3))), 24)
    shape = g.add("Concat", g.add("Shape", x, end=1), g.ints(24, -1), axis=0)
    rows = g.add("Transpose", g.add("Reshape", y, shape), perm=(0, 2, 1))
    offsets, scores = g.add_many("Split", [rows, g.ints(4, 20)], 2, axis=2)
    height, width = (g.add("Shape", x, start=i, end=i + 1) for i in (2, 3))
    ends = g.add("Concat", height, width, axis=0)
    across, down = (_range(g, g.ints(0), n) for n in (width, height))
    places = (across, g.add("Unsqueeze", down, g.ints(1)))
    wide = (g.add("Expand", g.add("Cast", each, to=TensorProto.FLOAT), ends) for each in places)
    grids = [g.add("Reshape", each, g.ints(-1, 1)) for each in wide]
    cells = g.add("Concat", *(2 * grids), axis=1)
    return g.add("Mul", g.add("Add", offsets, cells), g.scalar(stride)), g.add("Sigmoid", scores)
