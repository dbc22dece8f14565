"""ONNX Runtime's own attention as functions of ONNX's operators, beside its own kernels."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.graph.contributed import contributed
from ep_nnapi.nnapi.errors import Reason
from tests.onnx_graph import graph_of
from tests.oracle import FL, Case, Fed, Given, f16, f32, i32, matches, node, on_cpu, rejects, run

RNG = np.random.default_rng(0)
ROUNDED = {"rtol": 1e-5, "atol": 5e-6, "oracle": on_cpu}  # sums of float32 in another order
Feeds = dict[str, np.ndarray]


def own(op_type: str, *given: Given, shapes: Sequence[tuple[int, ...]], **attributes: object):
    """A node of com.microsoft with outputs of these shapes."""
    given = given[: 1 + max(i for i, x in enumerate(given) if x is not None)]
    half = isinstance(given[0], Fed) and given[0].dtype == TensorProto.FLOAT16
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    types = [helper.make_tensor_type_proto(kind, shape) for shape in shapes]
    options = {"domain": "com.microsoft", "outputs": len(types), "output_types": types}
    return node(op_type, *given, **options, **attributes)  # type: ignore[arg-type]


def heads(
    batch: int = 2,
    rows: int = 3,
    keys: int = 5,
    past: int = 0,
    *,
    cross: bool = False,
    bias: bool = False,
    mask: tuple[int, ...] = (),
    added: tuple[int, int] | None = None,
    **attributes: float,
) -> tuple[Case, Feeds]:
    """MultiHeadAttention of 4 heads of 8; mask: the shape of what hides keys."""
    sizes = (8, 8 if cross or past else 6)  # the kernel has values of other sizes without these
    total, cache = past + keys, [f32(batch, 4, past, n) if past else None for n in sizes]
    kv = [f32(batch, 4, keys, n) if cross else f32(batch, keys, 4 * n) for n in sizes]
    lengths = RNG.integers(1, total + 1, mask) if len(mask) == 1 else RNG.random(mask) < 0.7
    if len(mask) > 1:  # in a row without any key, numbers of -10000 are rounded
        lengths[..., 0] = True
    given = [
        *(f32(batch, rows, 32), *kv),
        f32(64 + 4 * sizes[1]) if bias else None,
        Fed(TensorProto.INT32, mask) if mask else None,
        f32(*added, rows, total) if added else None,
        *cache,
    ]
    shapes = [(batch, rows, 4 * sizes[1])]
    shapes += [(batch, 4, total, n) for n in sizes] if past else []
    case = own("MultiHeadAttention", *given, shapes=shapes, **{"num_heads": 4, **attributes})
    return case, {"x4": lengths} if mask else {}


HEADS = {
    "plain": heads(),
    "scaled": heads(scale=0.3),
    "a bias": heads(bias=True),
    "keys and values by heads": heads(cross=True),
    "a mask of keys": heads(mask=(2, 5)),
    "a mask of rows": heads(mask=(2, 3, 5), mask_filter_value=-1e4),
    "lengths": heads(mask=(2,)),
    "added to scores": heads(added=(1, 4)),
    "a cache": heads(past=4),
    "a cache, with all": heads(past=4, bias=True, mask=(2, 9), added=(2, 1)),
    "causal": heads(keys=3, unidirectional=1),
    "causal with a cache": heads(past=4, keys=3, unidirectional=1),
}


@pytest.mark.parametrize("given", HEADS.values(), ids=HEADS)
def test_multi_head_attention_matches(given: tuple[Case, Feeds]):
    case, feeds = given
    matches(case, FL[8], feeds=feeds, **ROUNDED)


def groups(
    batch: int = 1,
    rows: int = 1,
    total: int = 6,
    past: int = 5,
    *,
    counts: tuple[int, int] = (4, 2),
    packed: bool = False,
    lengths: Sequence[int] = (),
    size: int = 16,
    turned: int = 0,
    positions: bool = False,
    added: tuple[int, int] | None = None,
    known: bool = True,
    half: bool = False,
    **attributes: float,
) -> tuple[Case, Feeds]:
    """GroupQueryAttention of heads of `size`; turned: how many numbers of each are by positions."""
    own_heads, shared = counts
    f = f16 if half else f32
    width, cache = own_heads * size, max(total, past)
    kv = None if packed else f(batch, rows, shared * size)
    before = f(batch, shared, past, size) if past else None
    last = np.array(lengths or [total] * batch, np.int32) - 1
    angles = [RNG.uniform(-1, 1, (cache + 2, turned // 2)).astype(f().numpy) for _ in "cs"]
    feeds = {"x5": last, "x6": np.array(total, np.int32)}
    feeds["x9"] = np.maximum(last[:, None] + 1 - rows, 0) + np.arange(rows)
    given = [
        *(f(batch, rows, width + 2 * shared * size if packed else width), kv, kv, before, before),
        Fed(TensorProto.INT32, (batch,)),
        np.array(total, np.int32) if known else Fed(TensorProto.INT32, ()),
        *(angles if turned else (None, None)),
        Fed(TensorProto.INT64, (batch, rows)) if positions else None,
        f(*added, rows, total) if added else None,
    ]
    shapes = [(batch, rows, width), *[(batch, shared, cache, size)] * 2]
    named = {"num_heads": own_heads, "kv_num_heads": shared, "do_rotary": int(turned > 0)}
    case = own("GroupQueryAttention", *given, shapes=shapes, **named, **attributes)
    return case, {name: array for name, array in feeds.items() if name in case.feeds}


PROMPT = {"rows": 5, "total": 5, "past": 0}
GROUPS = {
    "a step": groups(),
    "a prompt": groups(2, **PROMPT),
    "steps of a batch": groups(2, lengths=(6, 4)),
    "a chunk": groups(rows=3, total=8, turned=16),
    "one group": groups(rows=3, total=8, counts=(4, 1)),
    "as many groups": groups(rows=3, total=8, counts=(2, 2)),
    "turned": groups(turned=16),
    "turned in part": groups(size=32, turned=16),
    "turned in pairs": groups(turned=16, rotary_interleaved=1),
    "positions": groups(2, turned=16, positions=True),
    "positions of a prompt": groups(2, **PROMPT, turned=16, positions=True),
    "a window": groups(total=9, past=8, local_window_size=4),
    "a window of a prompt": groups(2, **PROMPT, local_window_size=3),
    "bounded scores": groups(softcap=2.0),
    "scaled": groups(scale=0.5),
    "packed": groups(packed=True, turned=16),
    "added to scores": groups(2, rows=1, added=(2, 4)),
    "added to scores of all": groups(2, **PROMPT, added=(1, 1)),
    "a buffer": groups(total=6, past=12),
    "both ways": groups(**PROMPT, causal=0),
    "a total that a run knows": groups(known=False),
}


@pytest.mark.parametrize("given", GROUPS.values(), ids=GROUPS)
def test_group_query_attention_matches(given: tuple[Case, Feeds]):
    case, feeds = given
    matches(case, FL[8], feeds=feeds, **ROUNDED)


def test_a_prompt_of_another_length_in_the_batch():
    """Rows behind an entry's own are whatever."""
    case, feeds = groups(2, **PROMPT, lengths=(5, 3), turned=16)
    feeds = case.draw() | feeds
    want = on_cpu(case.model, feeds)
    for kept in [(slice(None), slice(3)), (0, slice(None))]:
        got = run(case, FL[8], feeds)
        np.testing.assert_allclose(got[0][kept], want[0][kept], rtol=1e-5, atol=5e-6)


def test_half_precision():
    case, feeds = groups(half=True, turned=16)
    matches(case, FL[8], feeds=feeds, rtol=5e-3, atol=5e-3, oracle=on_cpu)  # 11 bits


@pytest.mark.parametrize(
    ("given", "reason", "detail"),
    [
        (groups(smooth_softmax=1), Reason.ATTRIBUTE, "smooth_softmax is 1; it must be 0"),
        (groups(sliding_window_cache=1), Reason.ATTRIBUTE, "sliding_window_cache is 1"),
        (groups(k_quant_type="PER_TENSOR"), Reason.ATTRIBUTE, "k_quant_type is PER_TENSOR"),
        (groups(counts=(4, 3)), Reason.ATTRIBUTE, "num_heads is 4, which kv_num_heads 3 does not"),
        (groups(past=0), Reason.ATTRIBUTE, "counts past keys, but past_key is missing"),
        (
            groups(known=False, turned=16, positions=True),
            Reason.CONSTANT,
            "x6 must be constant where positions are given",
        ),
        (heads(mask=(3,)), Reason.SHAPE, "x4 has shape [3]; it must be [2, 5] or [2, 3, 5] or [2]"),
        (
            heads(unidirectional=1),
            Reason.SHAPE,
            "unidirectional with 3 queries and 5 keys; it takes as many",
        ),
        (heads(num_heads=0), Reason.ATTRIBUTE, "num_heads is 0; it must be positive"),
    ],
)
def test_others_are_rejected(given: tuple[Case, Feeds], reason: Reason, detail: str):
    rejects(given[0], FL[8], reason, detail)


@pytest.mark.parametrize(
    ("given", "index", "name"),
    [
        (groups(), 11, "head_sink"),
        (groups(), 12, "k_scale"),
        (groups(), 14, "q_norm_weight"),
        (groups(), 16, "query_seqlens"),
        (heads(past=4), 8, "past_sequence_length"),
        (heads(past=4), 9, "cache_indirection"),
    ],
)
def test_inputs_that_are_left_out(given: tuple[Case, Feeds], index: int, name: str):
    inputs = given[0].model.graph.node[0].input
    inputs.extend([""] * (index - len(inputs)))
    inputs.append("x0")
    rejects(given[0], FL[8], Reason.ATTRIBUTE, f"{name} is given; leave it out")


def test_packed_heads_are_rejected():
    packed = own("MultiHeadAttention", f32(2, 5, 4, 3, 8), shapes=[(2, 5, 32)], num_heads=4)
    rejects(packed, FL[8], Reason.RANK, "x0 has rank 5; it must be 3")


def test_operators_without_a_function():
    (gelu,) = graph_of(own("Gelu", f32(2), shapes=[(2,)]).model).nodes
    assert contributed(gelu) is None


def cached(
    shape: tuple[int, ...], rows: int, *starts: int, axis: int = -2, f: type = f32, **mode: str
) -> tuple[Case, Feeds]:
    """TensorScatter of `rows` rows into a cache of this shape."""
    update = list(shape)
    update[axis] = rows
    indices = [Fed(TensorProto.INT64, (len(starts),))] if starts else []
    given = f(*shape), f(*update), *indices
    case = node("TensorScatter", *given, opset=24, axis=axis, **mode)
    return case, {"x2": np.array(starts)} if starts else {}


CACHED = {
    "at the start": cached((2, 3, 6, 4), 2),
    "each of a batch": cached((2, 3, 6, 4), 2, 1, 4),
    "of one": cached((1, 3, 6, 4), 2, 3),
    "all": cached((2, 3, 6, 4), 6, 0, 0),
    "a ring": cached((2, 3, 6, 4), 3, 5, 2, mode="circular"),
    "a ring, again": cached((2, 3, 6, 4), 3, 17, 6, mode="circular"),
    "behind the batch": cached((3, 6, 4), 2, 0, 4, 1, axis=1),
    "the last axis": cached((2, 3, 6), 2, 4, 1, axis=-1),
    "halves": cached((2, 3, 6, 4), 2, 1, 4, f=f16),
}


@pytest.mark.parametrize("given", CACHED.values(), ids=CACHED)
def test_tensor_scatter_matches(given: tuple[Case, Feeds]):
    case, feeds = given
    matches(case, FL[8], feeds=feeds)


def test_scatters_of_integers_are_rejected():
    rejects(cached((2, 6, 3), 2, f=i32)[0], FL[8], Reason.DTYPE, "Concat: x0 is TENSOR_INT32")
