"""Operations that look elements up, and the fully connected layer."""

from itertools import accumulate
from math import prod

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs.drawn import (
    BOOL8,
    DATA,
    F32,
    I32,
    NUMBERS,
    Q8,
    Draw,
    Given,
    Operation,
    integer,
    recipes,
)
from tests.capi.graphs.windows import bias

FROM_2 = (2, 3, 4)


def embedding(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, count = d.tensor(code, d.dims(rank)), d.size()
    rows = [d.r.randrange(a.dims[0]) for _ in range(count)]
    return Operation([Given(I32, (count,), numbers=rows), a], [a.like(count, *a.dims[1:])])


def hashtable(d: Draw, code: OperandCode, rank: int) -> Operation:
    """Keys ascend; some look-ups meet none of them."""
    a, count = d.tensor(code, d.dims(rank)), d.size()
    keys = list(accumulate(d.size(1, 2) for _ in range(a.dims[0])))
    wanted = [d.size(0, keys[-1] + 1) for _ in range(count)]
    inputs = [Given(I32, (count,), numbers=wanted), Given(I32, (len(keys),), numbers=keys), a]
    return Operation(inputs, [a.like(count, *a.dims[1:]), Given(Q8, (count,), 1.0)])


def gather(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, axis = d.tensor(code, d.dims(rank)), d.axis(rank)
    at, dims = axis % rank, tuple(d.size(1, 3) for _ in range(d.size()))
    places = [d.r.randrange(a.dims[at]) for _ in range(prod(dims))]
    out = a.like(*a.dims[:at], *dims, *a.dims[at + 1 :])
    return Operation([a, integer(axis), Given(I32, dims, numbers=places)], [out])


def select(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    return Operation([Given(BOOL8, a.dims), a, a.like(*a.dims)], [a.like(*a.dims)])


def top(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    count = d.size(1, a.dims[-1])
    dims = (*a.dims[:-1], count)
    return Operation([a, integer(count)], [a.like(*dims), Given(I32, dims)])


def fully_connected(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, units = d.tensor(code, d.dims(rank)), d.size()
    elements = prod(a.dims)
    depth = d.r.choice([n for n in range(1, elements + 1) if elements % n == 0])
    weights = d.tensor(code, (units, depth))
    inputs = [a, weights, bias(d, a, weights, units), d.activation()]
    return Operation(inputs, [d.tensor(code, (elements // depth, units))])


RECIPES = [
    *recipes("EMBEDDING_LOOKUP", DATA, embedding, FROM_2),
    *recipes("HASHTABLE_LOOKUP", (F32, I32, Q8), hashtable, FROM_2),
    *recipes("GATHER", DATA, gather, (1, 2, 3, 4, 5)),
    *recipes("SELECT", DATA, select),
    *recipes("TOPK_V2", DATA, top),
    *recipes("FULLY_CONNECTED", NUMBERS, fully_connected, FROM_2),
]
