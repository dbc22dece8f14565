"""A text encoder."""

from math import sqrt

import numpy as np
from onnx import TensorProto

from models.builder import Graph, Tensor
from models.layers import dense, linear
from models.sizes import Sizes

WIDTH, HEADS, VOCABULARY, POSITIONS = 128, 2, 30522, 512


def transformer_encoder(g: Graph, sizes: Sizes) -> None:
    """BERT-tiny, two layers, as PyTorch exports BERT: GELU out of Erf, an additive mask.

    `input_ids`, `attention_mask` and `token_type_ids`, int64 [N, tokens], give `last_hidden_state`
    [N, tokens, 128] and `pooler_output` [N, 128].
    Source: J. Devlin et al., "BERT", 2018; I. Turc et al., "Well-read students learn better", 2019.
    """
    shape = (sizes.n(), sizes.along("tokens"))
    names = ("input_ids", "attention_mask", "token_type_ids")
    ids, mask, types = (g.input(name, shape, TensorProto.INT64) for name in names)
    x = g.add("Gather", table(g, VOCABULARY), ids)
    x = g.add("Add", x, g.add("Gather", table(g, 2), types))
    x = layer_norm(g, g.add("Add", x, g.add("Gather", table(g, POSITIONS), places(g, sizes, ids))))
    shut = additive(g, mask)
    for _ in range(2):
        x = layer_norm(g, g.add("Add", linear(g, attention(g, x, shut), WIDTH), x))
        x = layer_norm(g, g.add("Add", linear(g, gelu(g, linear(g, x, 4 * WIDTH)), WIDTH), x))
    g.output(g.add("Tanh", dense(g, first(g, x), WIDTH)), "pooler_output")
    g.output(x, "last_hidden_state")


def table(g: Graph, rows: int) -> Tensor:
    """An embedding of `rows` entries."""
    return g.normal(rows, WIDTH, std=0.02)


def places(g: Graph, sizes: Sizes, ids: Tensor) -> Tensor:
    """The positions [1, tokens] from 0, cut out at run time where the length is symbolic."""
    if "size" not in sizes.dynamic:
        return g.weight(np.arange(sizes.size)[None])
    length = g.add("Shape", ids, start=1, end=2)
    return g.add("Slice", g.weight(np.arange(POSITIONS)[None]), g.ints(0), length, g.ints(1))


def additive(g: Graph, mask: Tensor) -> Tensor:
    """`mask` (1 where there is a token) as what to add to attention scores, 0 or -10000."""
    x = g.add("Cast", g.add("Unsqueeze", mask, g.ints(1, 2)), to=TensorProto.FLOAT)
    return g.add("Mul", g.add("Sub", g.scalar(1), x), g.scalar(-10000))


def attention(g: Graph, x: Tensor, shut: Tensor) -> Tensor:
    """Scaled dot-product attention of all heads on [N, T, D], before the output projection."""
    q, v = (heads(g, linear(g, x, WIDTH), (0, 2, 1, 3)) for _ in range(2))
    k = heads(g, linear(g, x, WIDTH), (0, 2, 3, 1))
    scores = g.add("Div", g.add("MatMul", q, k), g.scalar(sqrt(WIDTH / HEADS)))
    weights = g.add("Softmax", g.add("Add", scores, shut), axis=-1)
    y = g.add("Transpose", g.add("MatMul", weights, v), perm=(0, 2, 1, 3))
    return g.add("Reshape", y, g.ints(0, 0, WIDTH)).wide(WIDTH)


def heads(g: Graph, x: Tensor, order: tuple[int, ...]) -> Tensor:
    """`x` [N, T, D] as [N, T, heads, D / heads], its dimensions put in `order`."""
    split = g.add("Reshape", x, g.ints(0, 0, HEADS, WIDTH // HEADS))
    return g.add("Transpose", split, perm=order)


def layer_norm(g: Graph, x: Tensor) -> Tensor:
    """Normalization over the last dimension."""
    scale, bias = g.uniform(WIDTH, low=0.8, high=1.2), g.normal(WIDTH, std=0.1)
    return g.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)


def gelu(g: Graph, x: Tensor) -> Tensor:
    """x/2 * (1 + erf(x / sqrt(2))), as five operators."""
    y = g.add("Erf", g.add("Div", x, g.scalar(sqrt(2))))
    return g.add("Mul", g.add("Mul", x, g.add("Add", y, g.scalar(1))), g.scalar(0.5))


def first(g: Graph, x: Tensor) -> Tensor:
    """The first token of [N, T, D], as [N, D]."""
    return g.add("Gather", x, g.weight(np.array(0)), axis=1)
