"""Operations that move elements: blocks, shapes, paddings, slices."""

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs.drawn import (
    BYTES,
    DATA,
    NUMBERS,
    Draw,
    Given,
    Operation,
    integer,
    integers,
    recipes,
)
from tests.capi.graphs.windows import Image

TO_5 = (1, 2, 3, 4, 5)


def space_to_depth(d: Draw, code: OperandCode, rank: int) -> Operation:
    out, block = Image.drawn(d), d.size(1, 5)
    a = d.tensor(code, out._replace(h=out.h * block, w=out.w * block).dims)
    inputs = [a, integer(block), *out.layout(d)]
    return Operation(inputs, [a.like(*out._replace(c=out.c * block**2).dims)])


def depth_to_space(d: Draw, code: OperandCode, rank: int) -> Operation:
    image, block = Image.drawn(d), d.size(1, 3)
    a = d.tensor(code, image._replace(c=image.c * block**2).dims)
    out = image._replace(h=image.h * block, w=image.w * block)
    return Operation([a, integer(block), *image.layout(d)], [a.like(*out.dims)])


def batch_to_space(d: Draw, code: OperandCode, rank: int) -> Operation:
    image, high, wide = Image.drawn(d), d.size(1, 3), d.size(1, 3)
    a = d.tensor(code, image._replace(n=image.n * high * wide).dims)
    out = image._replace(h=image.h * high, w=image.w * wide)
    return Operation([a, integers([high, wide]), *image.layout(d)], [a.like(*out.dims)])


def space_to_batch(d: Draw, code: OperandCode, rank: int) -> Operation:
    def attempt() -> Operation | None:
        image, high, wide = Image.drawn(d), d.size(), d.size()
        around = [[d.size(0, 10), d.size(0, 10)] for _ in range(2)]
        h, w = image.h + sum(around[0]), image.w + sum(around[1])
        if h % high or w % wide:
            return None
        a = d.tensor(code, image.dims)
        out = image._replace(n=image.n * high * wide, h=h // high, w=w // wide)
        inputs = [a, integers([high, wide]), integers(around), *image.layout(d)]
        return Operation(inputs, [a.like(*out.dims)])

    return d.until(attempt)


def reshape(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    dims = d.r.sample(a.dims, rank)
    told = list(dims)
    if d.chance():
        told[d.r.randrange(rank)] = -1
    return Operation([a, integers(told)], [a.like(*dims)])


def padded(d: Draw, code: OperandCode, rank: int) -> tuple[Given, Given, Given]:
    """The input, how it is padded, and the output."""
    a = d.tensor(code, d.dims(rank))
    around = [[d.size(0), d.size(0)] for _ in range(rank)]
    dims = [size + sum(pair) for size, pair in zip(a.dims, around, strict=True)]
    return a, integers(around), a.like(*dims)


def pad(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, around, out = padded(d, code, rank)
    return Operation([a, around], [out])


def pad_with(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, around, out = padded(d, code, rank)
    value = integer(d.r.randint(0, 127)) if code in BYTES else d.real(code, -10, 10)
    return Operation([a, around, value], [out])


def transpose(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, order = d.tensor(code, d.dims(rank)), d.r.sample(range(rank), rank)
    return Operation([a, integers(order)], [a.like(*(a.dims[i] for i in order))])


def squeeze(d: Draw, code: OperandCode, rank: int) -> Operation:
    gone = d.r.sample(range(rank), d.r.randint(1, rank))
    a = d.tensor(code, [1 if i in gone else n for i, n in enumerate(d.dims(rank))])
    dims = [size for i, size in enumerate(a.dims) if i not in gone]
    return Operation([a, integers(gone)], [a.like(*dims)])


def expand(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, axis = d.tensor(code, d.dims(rank)), d.axis(rank + 1)
    dims = list(a.dims)
    dims.insert(axis % (rank + 1), 1)
    return Operation([a, integer(axis)], [a.like(*dims)])


def tile(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, times = d.tensor(code, d.dims(rank)), [d.size(1, 4) for _ in range(rank)]
    dims = [size * n for size, n in zip(a.dims, times, strict=True)]
    return Operation([a, integers(times)], [a.like(*dims)])


def shuffle(d: Draw, code: OperandCode, rank: int) -> Operation:
    axis, groups, dims = d.axis(rank), d.size(), list(d.dims(rank))
    dims[axis] *= groups
    a = d.tensor(code, dims)
    return Operation([a, integer(groups), integer(axis)], [a.like(*dims)])


def concatenation(d: Draw, code: OperandCode, rank: int) -> Operation:
    axis, dims = d.r.randrange(rank), list(d.dims(rank))
    sizes = [d.size() for _ in range(d.size(2, 3))]
    parts = [d.tensor(code, [*dims[:axis], size, *dims[axis + 1 :]]) for size in sizes]
    out = d.tensor(code, [*dims[:axis], sum(sizes), *dims[axis + 1 :]])
    return Operation([*parts, integer(axis)], [out])


def split(d: Draw, code: OperandCode, rank: int) -> Operation:
    axis, count, dims = d.axis(rank), d.size(2, 3), list(d.dims(rank))
    part = tuple(dims)
    dims[axis] *= count
    a = d.tensor(code, dims)
    return Operation([a, integer(axis), integer(count)], [a.like(*part)] * count)


def crop(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    sizes = [d.size(1, size) for size in a.dims]
    begin = [d.size(0, n - size) for n, size in zip(a.dims, sizes, strict=True)]
    return Operation([a, integers(begin), integers(sizes)], [a.like(*sizes)])


def stride(d: Draw, size: int) -> tuple[int, int, int, int]:
    """Begin, end and step along one dimension, and how many elements that takes."""
    step = d.size(1, 3)
    count = d.size(1, -(-size // step))
    begin = d.size(0, size - (count - 1) * step - 1)
    last = begin + (count - 1) * step
    return begin, d.size(last + 1, min(last + step, size)), step, count


def strided(d: Draw, code: OperandCode, rank: int) -> Operation:
    """A mask sets a begin to 0, or an end to the size; the given ones are ignored."""
    a = d.tensor(code, d.dims(rank))
    begin, end, step, count = (
        list(each) for each in zip(*(stride(d, size) for size in a.dims), strict=True)
    )
    begin_mask = end_mask = 0
    for i, size in enumerate(a.dims):
        if begin[i] == 0 and d.chance():
            begin_mask, begin[i] = begin_mask | 1 << i, d.size(-5, 9)
        if end[i] == size and d.chance():
            end_mask, end[i] = end_mask | 1 << i, d.size(-5, 9)
    masks = [integer(begin_mask), integer(end_mask), integer(0)]
    return Operation([a, *map(integers, (begin, end, step)), *masks], [a.like(*count)])


RECIPES = [
    *recipes("SPACE_TO_DEPTH", NUMBERS, space_to_depth, (4,)),
    *recipes("DEPTH_TO_SPACE", NUMBERS, depth_to_space, (4,)),
    *recipes("BATCH_TO_SPACE_ND", NUMBERS, batch_to_space, (4,)),
    *recipes("SPACE_TO_BATCH_ND", NUMBERS, space_to_batch, (4,)),
    *recipes("RESHAPE", NUMBERS, reshape),
    *recipes("PAD", NUMBERS, pad),
    *recipes("PAD_V2", NUMBERS, pad_with),
    *recipes("TRANSPOSE", NUMBERS, transpose),
    *recipes("SQUEEZE", NUMBERS, squeeze),
    *recipes("EXPAND_DIMS", DATA, expand, TO_5),
    *recipes("TILE", DATA, tile),
    *recipes("CHANNEL_SHUFFLE", NUMBERS, shuffle),
    *recipes("CONCATENATION", NUMBERS, concatenation),
    *recipes("SPLIT", DATA, split),
    *recipes("SLICE", DATA, crop),
    *recipes("STRIDED_SLICE", NUMBERS, strided),
]
