"""Memory objects and their descriptors."""

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import u32s
from tests.capi.table.rows import (
    BAD_DATA,
    BAD_STATE,
    DATA,
    HUGE,
    NO_ERROR,
    UNEXPECTED_NULL,
    UNMAPPABLE,
    Rows,
    out,
)
from tests.capi.world import World

row = Rows()

# Memory descriptors

row("MemoryDesc_create", "any", NO_ERROR, lambda w: (out(),))
for end, count in (("Input", 2), ("Output", 1)):
    called = f"MemoryDesc_add{end}Role"
    row(called, "finished", NO_ERROR, lambda w: (w.empty_descriptor, w.ready(), 0, 1.0))
    row(called, "open", BAD_DATA, lambda w: (w.empty_descriptor, w.open_compilation, 0, 1.0))
    row(called, "failed", BAD_DATA, lambda w: (w.empty_descriptor, w.failed_compilation, 0, 1.0))
    row(
        called,
        "index = count",
        BAD_DATA,
        lambda w, count=count: (w.empty_descriptor, w.ready(), count, 1.0),
    )
    for frequency in (0.0, -1.0, 1.5, float("nan")):
        row(
            called,
            f"frequency {frequency}",
            BAD_DATA,
            lambda w, f=frequency: (w.empty_descriptor, w.ready(), 0, f),
        )
    row(
        called, "descriptor finished", BAD_STATE, lambda w: (w.finished_descriptor, w.ready(), 0, 1)
    )


def same_role(w: World) -> tuple[object, ...]:
    compilation = w.ready()
    return w.descriptor(compilation), compilation, 0, 1.0


def scalar_role(w: World) -> tuple[object, ...]:
    desc = w.empty_descriptor
    w.check("MemoryDesc_setDimensions", desc, 1, u32s([2]))
    return desc, w.ready(model=w.finished(activation=None)), 2, 1.0


def other_dimensions(w: World) -> tuple[object, ...]:
    return w.descriptor(), w.ready(model=w.finished(dims=(3,))), 0, 1.0


row("MemoryDesc_addInputRole", "the role twice", BAD_DATA, same_role)
row("MemoryDesc_addInputRole", "a scalar with dimensions", BAD_DATA, scalar_role)
row("MemoryDesc_addInputRole", "other dimensions", BAD_DATA, other_dimensions)
for state, code, rank, dims in (
    ("the same", NO_ERROR, 1, [2]),
    ("unknown", NO_ERROR, 0, []),
    ("others", BAD_DATA, 1, [3]),
    ("another rank", BAD_DATA, 2, [2, 1]),
    ("a rank nobody has", BAD_DATA, HUGE, [2]),
):
    row(
        "MemoryDesc_setDimensions",
        state,
        code,
        lambda w, r=rank, d=dims: (w.descriptor(), r, u32s(d)),
    )
row(
    "MemoryDesc_setDimensions",
    "null with a rank",
    UNEXPECTED_NULL,
    lambda w: (w.descriptor(), 1, None),
)
row(
    "MemoryDesc_setDimensions",
    "finished",
    BAD_STATE,
    lambda w: (w.finished_descriptor, 1, u32s([2])),
)
row("MemoryDesc_finish", "a role", NO_ERROR, lambda w: (w.descriptor(),))
row("MemoryDesc_finish", "no role", BAD_DATA, lambda w: (w.empty_descriptor,))
row("MemoryDesc_finish", "finished", BAD_STATE, lambda w: (w.finished_descriptor,))
row("Memory_createFromDesc", "finished", NO_ERROR, lambda w: (w.finished_descriptor, out()))
row("Memory_createFromDesc", "open", BAD_STATE, lambda w: (w.descriptor(), out()))


# Memories


def file_memory(state: str, code: ResultCode, size: int, protect: int, offset: int = 0) -> None:
    row(
        "Memory_createFromFd",
        state,
        code,
        lambda w: (size, protect, w.file(bytes(8)), offset, out()),
    )


file_memory("read and write", NO_ERROR, 8, 3)
file_memory("read", NO_ERROR, 8, 1)
file_memory("an offset", NO_ERROR, 5, 3, 3)
file_memory("size 0", BAD_DATA, 0, 3)
file_memory("no access", BAD_DATA, 8, 0)  # ours: Android maps it, and the process ends
file_memory("more than the file has", BAD_DATA, 9, 3)
file_memory("an offset past the end", BAD_DATA, 8, 3, 1)
file_memory("2^64 - 1 bytes", BAD_DATA, 2**64 - 1, 3)
row("Memory_createFromFd", "descriptor -1", BAD_DATA, lambda w: (8, 3, -1, 0, out()))
row("Memory_createFromFd", "closed descriptor", UNMAPPABLE, lambda w: (8, 3, 987654, 0, out()))
row("Memory_createFromAHardwareBuffer", "any", UNMAPPABLE, lambda w: (DATA, out()))
row("Memory_copy", "files of one size", NO_ERROR, lambda w: (w.memory(), w.memory()))
row("Memory_copy", "onto itself", NO_ERROR, lambda w: (w.memory(),) * 2)
row("Memory_copy", "files of two sizes", BAD_DATA, lambda w: (w.memory(), w.memory(bytes(4))))
row("Memory_copy", "onto a file read only", BAD_DATA, lambda w: (w.memory(), w.read_only_memory))
row("Memory_copy", "file to device", NO_ERROR, lambda w: (w.memory(), w.device_memory()))
row("Memory_copy", "wrong size", BAD_DATA, lambda w: (w.memory(bytes(4)), w.device_memory()))
row("Memory_copy", "no value", BAD_DATA, lambda w: (w.device_memory(), w.memory()))
