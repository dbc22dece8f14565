"""Operations that move elements: blocks, shapes, paddings, slices."""

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs import drawn
from tests.capi.graphs.windows import Image

TO_5 = (1, 2, 3, 4, 5)


def space_to_depth(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    out, block = Image.drawn(d), d.size(1, 5)
    a = d.tensor(code, out._replace(h=out.h * block, w=out.w * block).dims)
    inputs = [a, drawn.integer(block), *out.layout(d)]
    return drawn.Operation(inputs, [a.like(*out._replace(c=out.c * block**2).dims)])


def depth_to_space(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    image, block = Image.drawn(d), d.size(1, 3)
    a = d.tensor(code, image._replace(c=image.c * block**2).dims)
    out = image._replace(h=image.h * block, w=image.w * block)
    return drawn.Operation([a, drawn.integer(block), *image.layout(d)], [a.like(*out.dims)])


def batch_to_space(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    image, high, wide = Image.drawn(d), d.size(1, 3), d.size(1, 3)
    a = d.tensor(code, image._replace(n=image.n * high * wide).dims)
    out = image._replace(h=image.h * high, w=image.w * wide)
    return drawn.Operation([a, drawn.integers([high, wide]), *image.layout(d)], [a.like(*out.dims)])


def space_to_batch(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    def attempt() -> drawn.Operation | None:
        image, high, wide = Image.drawn(d), d.size(), d.size()
        around = [[d.size(0, 10), d.size(0, 10)] for _ in range(2)]
        h, w = image.h + sum(around[0]), image.w + sum(around[1])
        if h % high or w % wide:
            return None
        a = d.tensor(code, image.dims)
        out = image._replace(n=image.n * high * wide, h=h // high, w=w // wide)
        inputs = [a, drawn.integers([high, wide]), drawn.integers(around), *image.layout(d)]
        return drawn.Operation(inputs, [a.like(*out.dims)])

    return d.until(attempt)


def reshape(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    dims = d.r.sample(a.dims, rank)
    told = list(dims)
    if d.chance():
        told[d.r.randrange(rank)] = -1
    return drawn.Operation([a, drawn.integers(told)], [a.like(*dims)])


def padded(
    d: drawn.Draw, code: OperandCode, rank: int
) -> tuple[drawn.Given, drawn.Given, drawn.Given]:
    """The input, how it is padded, and the output."""
    a = d.tensor(code, d.dims(rank))
    around = [[d.size(0), d.size(0)] for _ in range(rank)]
    dims = [size + sum(pair) for size, pair in zip(a.dims, around, strict=True)]
    return a, drawn.integers(around), a.like(*dims)


def pad(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, around, out = padded(d, code, rank)
    return drawn.Operation([a, around], [out])


def pad_with(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, around, out = padded(d, code, rank)
    value = drawn.integer(d.r.randint(0, 127)) if code in drawn.BYTES else d.real(code, -10, 10)
    return drawn.Operation([a, around, value], [out])


def transpose(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, order = d.tensor(code, d.dims(rank)), d.r.sample(range(rank), rank)
    return drawn.Operation([a, drawn.integers(order)], [a.like(*(a.dims[i] for i in order))])


def squeeze(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    gone = d.r.sample(range(rank), d.r.randint(1, rank))
    a = d.tensor(code, [1 if i in gone else n for i, n in enumerate(d.dims(rank))])
    dims = [size for i, size in enumerate(a.dims) if i not in gone]
    return drawn.Operation([a, drawn.integers(gone)], [a.like(*dims)])


def expand(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, axis = d.tensor(code, d.dims(rank)), d.axis(rank + 1)
    dims = list(a.dims)
    dims.insert(axis % (rank + 1), 1)
    return drawn.Operation([a, drawn.integer(axis)], [a.like(*dims)])


def tile(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, times = d.tensor(code, d.dims(rank)), [d.size(1, 4) for _ in range(rank)]
    dims = [size * n for size, n in zip(a.dims, times, strict=True)]
    return drawn.Operation([a, drawn.integers(times)], [a.like(*dims)])


def shuffle(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    axis, groups, dims = d.axis(rank), d.size(), list(d.dims(rank))
    dims[axis] *= groups
    a = d.tensor(code, dims)
    return drawn.Operation([a, drawn.integer(groups), drawn.integer(axis)], [a.like(*dims)])


def concatenation(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    axis, dims = d.r.randrange(rank), list(d.dims(rank))
    sizes = [d.size() for _ in range(d.size(2, 3))]
    parts = [d.tensor(code, [*dims[:axis], size, *dims[axis + 1 :]]) for size in sizes]
    out = d.tensor(code, [*dims[:axis], sum(sizes), *dims[axis + 1 :]])
    return drawn.Operation([*parts, drawn.integer(axis)], [out])


def split(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    axis, count, dims = d.axis(rank), d.size(2, 3), list(d.dims(rank))
    part = tuple(dims)
    dims[axis] *= count
    a = d.tensor(code, dims)
    return drawn.Operation([a, drawn.integer(axis), drawn.integer(count)], [a.like(*part)] * count)


def crop(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    sizes = [d.size(1, size) for size in a.dims]
    begin = [d.size(0, n - size) for n, size in zip(a.dims, sizes, strict=True)]
    return drawn.Operation([a, drawn.integers(begin), drawn.integers(sizes)], [a.like(*sizes)])


def stride(d: drawn.Draw, size: int) -> tuple[int, int, int, int]:
    """Begin, end and step along one dimension, and how many elements that takes."""
    step = d.size(1, 3)
    count = d.size(1, -(-size // step))
    begin = d.size(0, size - (count - 1) * step - 1)
    last = begin + (count - 1) * step
    return begin, d.size(last + 1, min(last + step, size)), step, count


def strided(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
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
    masks = [drawn.integer(begin_mask), drawn.integer(end_mask), drawn.integer(0)]
    return drawn.Operation([a, *map(drawn.integers, (begin, end, step)), *masks], [a.like(*count)])


RECIPES = [
    *drawn.recipes("SPACE_TO_DEPTH", drawn.NUMBERS, space_to_depth, (4,)),
    *drawn.recipes("DEPTH_TO_SPACE", drawn.NUMBERS, depth_to_space, (4,)),
    *drawn.recipes("BATCH_TO_SPACE_ND", drawn.NUMBERS, batch_to_space, (4,)),
    *drawn.recipes("SPACE_TO_BATCH_ND", drawn.NUMBERS, space_to_batch, (4,)),
    *drawn.recipes("RESHAPE", drawn.NUMBERS, reshape),
    *drawn.recipes("PAD", drawn.NUMBERS, pad),
    *drawn.recipes("PAD_V2", drawn.NUMBERS, pad_with),
    *drawn.recipes("TRANSPOSE", drawn.NUMBERS, transpose),
    *drawn.recipes("SQUEEZE", drawn.NUMBERS, squeeze),
    *drawn.recipes("EXPAND_DIMS", drawn.DATA, expand, TO_5),
    *drawn.recipes("TILE", drawn.DATA, tile),
    *drawn.recipes("CHANNEL_SHUFFLE", drawn.NUMBERS, shuffle),
    *drawn.recipes("CONCATENATION", drawn.NUMBERS, concatenation),
    *drawn.recipes("SPLIT", drawn.DATA, split),
    *drawn.recipes("SLICE", drawn.DATA, crop),
    *drawn.recipes("STRIDED_SLICE", drawn.NUMBERS, strided),
]
