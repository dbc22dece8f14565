"""ONNX Runtime's own attention operators, and TensorScatter, as functions of ONNX's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import sqrt

import numpy as np
from onnx import TensorProto

from ep_nnapi.graph.function_writer import (
    OUTPUTS,
    SWAP,
    Body,
    FunctionWriter,
    NodeReader,
)
from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode
from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import Reason, Reject

_INT32 = TensorProto.INT32


def contributed(node: GraphNode) -> Body | None:
    """Returns the function that computes an operator; None for an operator without one.

    Raises Reject for what the function does not cover.
    """
    write = _FUNCTIONS.get((node.domain, node.op_type))
    return None if write is None else write(NodeReader(node))


def _scale(given: NodeReader, head_size: int) -> float:
    return given.number("scale") or 1 / sqrt(head_size)


def _multi_head_attention(given: NodeReader) -> Body:
    """Queries [B, S, N D]; keys and values [B, L, N D] or [B, N, L, D], after those of the past.

    Source: ONNX Runtime, com.microsoft.MultiHeadAttention-1.
    """
    given.refuse(past_sequence_length=8, cache_indirection=9)
    given.refuse_output(3)
    heads = given.heads("num_heads")
    for index, ranks in ((0, (3,)), (1, (3, 4)), (2, (3, 4))):
        given.require_rank(index, *ranks)
    names = "query key value bias mask added past_key past_value"
    write = FunctionWriter(given, names.split())
    q, *kv = _with_bias(given, write)
    both = list[str]()
    for i, x in enumerate(kv):
        new = x if given.input(1 + i).rank > len("BSN") else write.to_heads(x, heads)
        parts = [*([write.inputs[6 + i]] if given.has(6 + i) else []), new]
        both.append(write("Concat", *parts, axis=2, out=OUTPUTS[1 + i]))
    added = [*_hidden(given, write), *(["added"] if given.has(5) else [])]
    scale = _scale(given, given.input(0).shape[-1] // heads)
    write.merged(write.attended(write.to_heads(q, heads), both[0], both[1], scale, added))
    return write.body()


def _with_bias(given: NodeReader, write: FunctionWriter) -> list[str]:
    """The names of queries, keys and values, with the bias [sum of their last sizes] added."""
    names = ["query", "key", "value"]
    if not given.has(3):
        return names
    for index in (1, 2):
        given.require_rank(index, 3)
    sizes = [given.input(index).shape[-1] for index in range(3)]
    given.require_shape(3, [sum(sizes)])
    biases = write.split("bias", sizes, axis=0)
    return [write("Add", x, bias) for x, bias in zip(names, biases, strict=True)]


def _hidden(given: NodeReader, write: FunctionWriter) -> Iterator[str]:
    """Yields what hides keys: a mask of 0 for each that is hidden, lengths; later ones."""
    batch, rows, _ = given.input(0).shape
    length = given.input(1).shape[-2]
    past = given.input(6).shape[2] if given.has(6) else 0
    total = past + length
    none = write.real(0.0)
    if given.has(4):
        given.require_shape(4, [batch, total], [batch, rows, total], [batch])
        rank = given.input(4).rank
        if rank == 1:
            count = write.reshaped("mask", -1, 1, 1, 1)
            shown = write("Less", write.range(total), count)
        else:
            positive = write("Greater", "mask", write.array(np.array(0, np.int32)))
            shown = write(
                "Unsqueeze", positive, write.ints(*((1, 2) if rank == len("BT") else (1,)))
            )
        filter_value = write.real(given.number("mask_filter_value", -10000.0))
        yield write("Where", shown, none, filter_value)
    if given.integer("unidirectional"):
        detail = f"unidirectional with {rows} queries and {length} keys; it takes as many"
        given.require(rows == length, Reason.SHAPE, detail)
        at = write("Add", write.range(rows), write.size(past, DType.INT32))
        shown = write("LessOrEqual", write.range(total), write.reshaped(at, -1, 1))
        yield write("Where", shown, none, write.lowest)


def _group_query_attention(given: NodeReader) -> Body:
    """Queries [B, S, N D] of N heads; keys and values [B, S, G D], which a cache [B, G, P, D] gets.

    Entry b of the batch has seqlens_k[b] + 1 keys then, the last of which are the new ones.
    Source: ONNX Runtime, com.microsoft.GroupQueryAttention-1.
    """
    given.refuse(head_sink=11, k_scale=12, v_scale=13, q_norm_weight=14, query_seqlens=16)
    given.refuse_output(3)
    given.usual(sliding_window_cache=0, k_quant_type="NONE", v_quant_type="NONE")
    smooth = given.integer("smooth_softmax", -1)
    given.require(smooth < 1, Reason.ATTRIBUTE, f"smooth_softmax is {smooth}; it must be 0")
    names = "query key value past_key past_value seqlens_k total cos sin position_ids added"
    return _GroupQuery(given, FunctionWriter(given, names.split())).body()


class _GroupQuery:
    """The sizes of a GroupQueryAttention, and the function's values that others are made of.

    total  size of the cache afterwards
    start  [B, 1] INT32: where the new keys are in it
    """

    def __init__(self, given: NodeReader, write: FunctionWriter) -> None:
        self.given, self.write = given, write
        self.heads, self.groups = given.heads("num_heads"), given.heads("kv_num_heads")
        detail = f"num_heads is {self.heads}, which kv_num_heads {self.groups} does not divide"
        given.require(self.heads % self.groups == 0, Reason.ATTRIBUTE, detail)
        given.require_rank(0, 3)
        self.batch, self.rows, width = given.input(0).shape
        parts = self.heads if given.has(1) else self.heads + 2 * self.groups
        self.head_size = width // parts
        self.past = given.input(3).shape[2] if given.has(3) else 0
        self.tokens, self.total = self._lengths()
        given.require_shape(5, [self.batch], [self.batch, 1])
        self.seqlens = write.reshaped("seqlens_k", -1, 1)
        one, none = (write.array(np.array(i, np.int32)) for i in (1, 0))
        before = write("Sub", write("Add", self.seqlens, one), write.size(self.rows, DType.INT32))
        self.start = write("Max", before, none)

    def _lengths(self) -> tuple[int | None, int]:
        """The most keys of an entry, None if a run finds that, and the size of the cache."""
        limit, cache = self.given.input(6), [*self.given.node.outputs, None][1]
        if limit.constant is not None:
            tokens = limit.constant.integers[0]
            return tokens, max(tokens, self.past)
        if cache is None or cache.dims is None or not isinstance(cache.dims[2], int):
            detail = f"{limit.name} must be constant, or the sizes of the cache known"
            raise Reject(Reason.CONSTANT, detail)
        return None, cache.dims[2]

    def body(self) -> Body:
        """The function."""
        write, given = self.write, self.given
        q, k, v = ("query", "key", "value")
        if not given.has(1):
            own, shared = self.heads * self.head_size, self.groups * self.head_size
            q, k, v = write.split(q, [own, shared, shared], axis=2)
        if given.integer("do_rotary"):
            q, k = self._rotated(q, k)
        keys, values = (
            self._cached(write.to_heads(new, self.groups), past, out)
            for new, past, out in zip((k, v), ("past_key", "past_value"), OUTPUTS[1:], strict=True)
        )
        # the heads of a group are more rows: [B, G, S N/G, D]
        grouped = write.reshaped(write.to_heads(q, self.groups), 0, 0, -1, self.head_size)
        added = [self._hidden(), *([self._bias()] if given.has(10) else [])]
        found = write.attended(grouped, keys, values, _scale(given, self.head_size), added)
        width = self.heads // self.groups * self.head_size
        write.merged(write.reshaped(found, 0, 0, -1, width))
        return write.body()

    def _rotated(self, *tensors: str) -> list[str]:
        """Queries and keys, turned by the angles of their positions."""
        write, given = self.write, self.given
        angles = 2 * given.input(7).shape[1]
        rows = write.reshaped(write.range(self.rows), 1, -1)
        places = write("Add", self.start, rows)
        if given.has(9):
            detail = f"{given.input(6).name} must be constant where positions are given"
            given.require(self.tokens is not None, Reason.CONSTANT, detail)
            given.require_shape(9, [self.batch, self.rows])
            places = write("Cast", "position_ids", to=_INT32)
            if self.tokens == self.rows:  # of a prompt, the first position counts
                first = write("Gather", write.reshaped(places, -1), write.ints(0))
                places = write("Add", first, rows)
        sizes = write("Concat", write.size(self.batch), write.size(self.rows), axis=0)
        places = write("Expand", places, sizes)
        tables = [write("Gather", name, places, axis=0) for name in ("cos", "sin")]
        return [
            write(
                "RotaryEmbedding",
                *(x, *tables),
                num_heads=heads,
                interleaved=given.integer("rotary_interleaved"),
                rotary_embedding_dim=0 if angles == self.head_size else angles,
            )
            for x, heads in zip(tensors, (self.heads, self.groups), strict=True)
        ]

    def _cached(self, new: str, past: str, out: str) -> str:
        """The cache with the new rows [B, G, S, D] from `start` on, and zeros behind them."""
        write = self.write
        if self.total == self.rows:  # there are no keys but the new ones
            return write("Identity", new, out=out)
        detail = f"{self.given.input(6).name} counts past keys, but past_key is missing"
        self.given.require(self.given.has(3), Reason.ATTRIBUTE, detail)
        sizes = write.ints(self.groups, 1, self.head_size)
        zeros = write(
            "Expand", write.real(0.0), write("Concat", write.size(self.batch), sizes, axis=0)
        )
        every = write("Concat", past, new, zeros, axis=2)
        place = write.reshaped(write.range(self.total), 1, -1)
        ends = (write.size(n, DType.INT32) for n in (self.past, self.past + self.rows))
        behind = write("Add", write("Sub", place, self.start), next(ends))
        behind = write("Min", behind, next(ends))
        source = write("Where", write("Less", place, self.start), place, behind)
        return write.taken(every, source, SWAP, self.batch, out)

    def _hidden(self) -> str:
        """What hides later keys, those before the window, and those that there are not."""
        write, window = self.write, self.given.integer("local_window_size", -1)
        each = self.heads // self.groups
        rows = write("Expand", write.reshaped(write.range(self.rows), -1, 1), write.ints(1, each))
        first = write.reshaped(self.start, -1, 1, 1, 1)
        at = write("Add", write.reshaped(rows, 1, 1, -1, 1), first)
        key = write.range(self.total)
        last = at if self.given.integer("causal", 1) else write.reshaped(self.seqlens, -1, 1, 1, 1)
        shown = write("LessOrEqual", key, last)
        if window > 0:
            before = write("Sub", at, write.array(np.array(window, np.int32)))
            shown = write("And", shown, write("Greater", key, before))
        return write("Where", shown, write.real(0.0), write.lowest)

    def _bias(self) -> str:
        """What is added to the scores [B or 1, N or 1, S, T], by groups."""
        write, given, each = self.write, self.given, self.heads // self.groups
        batches, heads, sizes = {1, self.batch}, {1, self.heads}, (self.rows, self.total)
        given.require_shape(10, *([b, h, *sizes] for b in batches for h in heads))
        shared = given.input(10).shape[1] == 1
        if each == 1:
            return "added"
        rows, total = write.size(self.rows), write.size(self.total)
        if shared:
            apart = write("Transpose", "added", perm=SWAP)
            wide = write("Expand", apart, write.ints(1, 1, each, 1))
            return write.reshaped(wide, 0, 1, -1, total)
        apart = write("Transpose", write.reshaped("added", -1, each, rows, total), perm=SWAP)
        return write.reshaped(apart, -1, self.groups, write.size(self.rows * each), total)


def _tensor_scatter(given: NodeReader) -> Body:
    """The cache [B, ..., M, ...] with updates [B, ..., S, ...] from index `write_indices` [B] on.

    Source: ONNX TensorScatter-24.
    """
    cache, update = given.input(0), given.input(1)
    batch, axis = cache.shape[0], given.integer("axis", -2) % cache.rank
    most, rows = cache.shape[axis], update.shape[axis]
    write = FunctionWriter(given, ["cache", "update", "indices"])
    size, length = (write.size(n, DType.INT32) for n in (most, rows))
    start = write.array(np.array([[0]], np.int32))
    if given.has(2):
        start = write.reshaped(write("Cast", "indices", to=_INT32), -1, 1)
    place = write.reshaped(write.range(most), 1, -1)
    behind = write("Sub", place, start)
    if given.node.attributes.get("mode", "linear") == "circular":
        behind = write("Mod", behind, size)
    none = write.array(np.array(0, np.int32))
    inside = write("And", write("GreaterOrEqual", behind, none), write("Less", behind, length))
    source = write("Where", inside, write("Add", behind, size), place)
    perm = list(range(cache.rank))
    perm[1], perm[axis] = axis, 1
    every = write("Concat", "cache", "update", axis=axis)
    write.taken(every, source, perm, batch if given.has(2) else 1, "present")
    return write.body(["present"])


_FUNCTIONS: Mapping[tuple[str, str], Callable[[NodeReader], Body]] = {
    ("", "TensorScatter"): _tensor_scatter,
    (MICROSOFT_DOMAIN, "GroupQueryAttention"): _group_query_attention,
    (MICROSOFT_DOMAIN, "MultiHeadAttention"): _multi_head_attention,
}
