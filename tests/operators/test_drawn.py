"""Operators of ONNX Runtime's own, of drawn sizes and attributes, beside its own kernels.

Each is computed by NNAPI's operations, and on `host-cpu` whole.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.test_contributed import groups, heads
from tests.operators.recurrent_layers import quantized_lstm
from tests.operators.test_packed import product, table
from tests.oracle import FL, Case, f32, i64, matches, node, on_cpu
from tests.runtimes import host_only

SEED, CASES = 3700, 20
Drawn: TypeAlias = tuple[Case, Mapping[str, np.ndarray]]
Random = np.random.Generator


def one(rng: Random, *choices):
    return choices[rng.integers(len(choices))]


def some(rng: Random, **attributes):
    """Each of the attributes, or not."""
    return {name: value for name, value in attributes.items() if rng.random() < 0.5}


def like(*shape: int) -> list:
    return [helper.make_tensor_type_proto(TensorProto.FLOAT, shape)]


def matmul_nbits(rng: Random) -> Drawn:
    depth, units = (int(n) for n in rng.integers(1, 200, 2))
    more = some(rng, bias=True, zero="packed")
    return product(depth, units, bits=one(rng, 4, 8), block=one(rng, 16, 32, 64, 128), **more), {}


def gather_block_quantized(rng: Random) -> Drawn:
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(4)))
    zero = bool(rng.random() < 0.5)
    return table(int(rng.integers(1, 20)), bits=one(rng, 4, 8), zero=zero, shape=shape), {}


def multi_head_attention(rng: Random) -> Drawn:
    batch, rows, keys = (int(n) for n in rng.integers(1, 7, 3))
    past, cross = one(rng, (0, False), (0, True), (int(rng.integers(1, 6)), False))
    causal = not cross and rng.random() < 0.3
    keys = rows if causal else keys
    total = past + keys
    masks = (), (batch, total), (batch, rows, total), (batch,)
    more = some(rng, scale=0.4, added=(one(rng, 1, batch), one(rng, 1, 4)))
    more |= {"unidirectional": 1} if causal else {}
    more |= {} if cross else some(rng, bias=True)
    return heads(batch, rows, keys, past, cross=cross, mask=one(rng, *masks), **more)


def group_query_attention(rng: Random) -> Drawn:
    batch, shared = (int(n) for n in rng.integers(1, 4, 2))
    counts = shared * int(rng.integers(1, 4)), shared
    more = some(rng, packed=True, softcap=3.0, scale=0.3, local_window_size=2)
    if rng.random() < 0.7:
        more |= {"turned": 16, **some(rng, rotary_interleaved=1, positions=True)}
    more |= some(rng, added=(one(rng, 1, batch), one(rng, 1, counts[0])))
    if rng.random() < 0.4:
        rows = int(rng.integers(1, 7))
        return groups(batch, rows, rows, 0, counts=counts, **more)
    past = int(rng.integers(1, 9))
    rows = int(rng.integers(1, 4)) if batch == 1 else 1
    lengths = [past + rows, *(int(n) + rows for n in rng.integers(0, past + 1, batch - 1))]
    return groups(batch, rows, past + rows, past, counts=counts, lengths=lengths, **more)


def rotary_embedding(rng: Random) -> Drawn:
    batch, rows, count = (int(n) for n in rng.integers(1, 6, 3))
    size = int(rng.integers(1, 9)) * 4
    turned = one(rng, size, size // 2)
    more = {} if turned == size else {"rotary_embedding_dim": turned}
    given = f32(batch, rows, count * size), i64(batch, rows, low=0, high=9)
    named = {"num_heads": count, "interleaved": one(rng, 0, 1), **more}
    options = {"domain": "com.microsoft", "output_types": like(batch, rows, count * size)}
    angles = [rng.uniform(-1, 1, (10, turned // 2)).astype(np.float32) for _ in "cs"]
    return node("RotaryEmbedding", *given, *angles, **options, **named), {}


def skipped(op_type: str) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        batch, rows, depth = (int(n) for n in rng.integers(1, 40, 3))
        plain = op_type == "SkipLayerNormalization"
        given = [f32(batch, rows, depth), f32(batch, rows, depth), f32(depth)]
        given += [one(rng, None, f32(depth))] if plain else []
        given += [one(rng, None, f32(depth))]
        while given[-1] is None:
            given.pop()
        options = {"domain": "com.microsoft", "output_types": like(batch, rows, depth)}
        return node(op_type, *given, **options, epsilon=one(rng, 1e-5, 1e-2)), {}

    return draw


def simplified(rng: Random) -> Drawn:
    shape = tuple(int(n) for n in rng.integers(2, 20, rng.integers(1, 4)))
    types = like(*shape)
    return node(
        "SimplifiedLayerNormalization",
        *(f32(*shape), f32(shape[-1])),
        output_types=types,
        axis=-1,
        epsilon=one(rng, 1e-5, 1e-2),
    ), {}


def dynamic_quantize_lstm(rng: Random) -> Drawn:
    more = some(rng, columns=True, unsigned=True, bias=False, outputs=int(rng.integers(1, 4)))
    return quantized_lstm(direction=one(rng, "forward", "reverse", "bidirectional"), **more), {}


def curve(op_type: str, *, bias: bool = False) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        shape = tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 5)))
        given = [f32(*shape, low=-9, high=9), *([f32(shape[-1])] if bias else [])]
        more = some(rng, alpha=0.7) if op_type == "QuickGelu" else {}
        return node(op_type, *given, domain="com.microsoft", output_types=like(*shape), **more), {}

    return draw


ACTIVATIONS = (
    *({"activation": name} for name in ("Relu", "Sigmoid", "Tanh")),
    {"activation": "LeakyRelu", "activation_params": [0.3]},
    {"activation": "Clip", "activation_params": [-0.5, 4.0]},
)


def fused_conv(rng: Random) -> Drawn:
    batch, channels, filters, kernel = (int(n) for n in rng.integers(1, 5, 4))
    sizes = [int(n) + kernel for n in rng.integers(0, 9, 2)]
    shape = batch, filters, *(size - kernel + 1 for size in sizes)
    weights = rng.uniform(-1, 1, (filters, channels, kernel, kernel)).astype(np.float32)
    biases = rng.uniform(-1, 1, filters).astype(np.float32)
    given = f32(batch, channels, *sizes), weights, biases, *one(rng, (), (f32(*shape),))
    options = {"domain": "com.microsoft", "output_types": like(*shape)}
    return node("FusedConv", *given, **options, **one(rng, *ACTIVATIONS)), {}


def product_of(op_type: str) -> Callable[[Random], Drawn]:
    def draw(rng: Random) -> Drawn:
        rows, depth, columns, batch = (int(n) for n in rng.integers(1, 20, 4))
        turned = some(rng, transA=1, transB=1)
        a = (depth, rows) if "transA" in turned else (rows, depth)
        b = (columns, depth) if "transB" in turned else (depth, columns)
        first = () if op_type == "FusedGemm" else one(rng, (), (batch,))
        given = f32(*first, *a), f32(*first, *b)
        if op_type == "FusedGemm":
            given += one(rng, (), (rng.uniform(-1, 1, columns).astype(np.float32),))
            turned |= {"activation": one(rng, "Relu", "Sigmoid", "Tanh"), **some(rng, beta=0.5)}
        options = {"domain": "com.microsoft", "output_types": like(*first, rows, columns)}
        return node(op_type, *given, **options, **turned, **some(rng, alpha=0.5)), {}

    return draw


OPERATORS = {
    "BiasGelu": curve("BiasGelu", bias=True),
    "FastGelu": curve("FastGelu", bias=True),
    "FusedConv": fused_conv,
    "FusedGemm": product_of("FusedGemm"),
    "FusedMatMul": product_of("FusedMatMul"),
    "Gelu": curve("Gelu"),
    "QuickGelu": curve("QuickGelu"),
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "GatherBlockQuantized": gather_block_quantized,
    "GroupQueryAttention": group_query_attention,
    "MatMulNBits": matmul_nbits,
    "MultiHeadAttention": multi_head_attention,
    "RotaryEmbedding": rotary_embedding,
    "SimplifiedLayerNormalization": simplified,
    "SkipLayerNormalization": skipped("SkipLayerNormalization"),
    "SkipSimplifiedLayerNormalization": skipped("SkipSimplifiedLayerNormalization"),
}
ROUNDED = {"rtol": 2e-5, "atol": 2e-4}
"""Sums of up to 200 products in float32 in another order, of numbers up to 30."""
OF_BYTES = {"atol": 0.01}
"""The kernel rounds numbers up to 2 to 8 bits, in another way where it computes exact sums."""


@host_only
@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
@pytest.mark.parametrize("op_type", OPERATORS)
def test_drawn_cases_match(op_type: str, seed: int):
    case, feeds = OPERATORS[op_type](np.random.default_rng(seed))
    within = OF_BYTES if op_type == "DynamicQuantizeLSTM" else ROUNDED
    for device in ("nnapi-reference", "host-cpu"):
        matches(case, FL[8], feeds=feeds, oracle=on_cpu, seed=seed, on=device, **within)
