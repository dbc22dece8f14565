"""Shape inference for hashtable lookups, LSH projection and random sampling."""

from __future__ import annotations

from enum import IntEnum

from ep_nnapi.nnapi.shapes.operands import Dims, Tensor, by_name, require, unify, vector

HASH_BITS = 32
"""Maximum number of bits of one hash function. Source: NDK ANEURALNETWORKS_LSH_PROJECTION."""


class Projection(IntEnum):
    """Types of LSH_PROJECTION. Source: NDK ANEURALNETWORKS_LSH_PROJECTION."""

    SPARSE_DEPRECATED = 1
    DENSE = 2
    SPARSE = 3


def hashtable_lookup(lookups: Tensor, keys: Tensor, values: Tensor) -> list[Dims | None]:
    """A row of `values` and a flag for each of `lookups`; as on Android, a row may be a scalar."""
    unify(vector(keys), values.dims[0])
    asked = vector(lookups)
    return [(asked, *values.dims[1:]), (asked,)]


def lsh_projection(hash: Tensor, input: Tensor, type: int, weight: Tensor | None = None) -> Dims:
    """One number for each hash function, or for each of its bits if dense."""
    require(hash.rank == 2, f"hash functions have 2 dimensions, not {hash.rank}")
    require(type in list(Projection), f"projection type {type} is none of 1 to 3")
    functions, bits = hash.dims
    require(
        bits is None or bits <= HASH_BITS,
        f"hash has functions of {bits} bits; it takes {HASH_BITS} or fewer",
    )
    if weight is not None and weight.known is not None and input.known is not None:
        unify(vector(weight), input.dims[0])
    if type != Projection.DENSE:
        return (functions,)
    return (None if functions is None or bits is None else functions * bits,)


def random_multinomial(input: Tensor, sample_count: int, seeds: Tensor) -> Dims:
    """[batches, sample_count]."""
    require(input.rank == 2, f"log-probabilities have 2 dimensions, not {input.rank}")
    require(sample_count >= 0, f"sample_count is {sample_count}; it must be 0 or more")
    if seeds.known is not None:
        unify(vector(seeds), 2)
    return (input.dims[0], sample_count)


SHAPES = by_name(hashtable_lookup, lsh_projection, random_multinomial)
