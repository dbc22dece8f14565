"""A flatbuffer and its weights in one piece of memory, of which those of a file are no copy."""

from os import SEEK_END
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.epcontext.layout import aligned
from ep_nnapi.native._native import ffi, lib

PAGE = 4096


@pytest.mark.parametrize("size", [1, 64, 3000, PAGE, 3 * PAGE + 5])
@pytest.mark.parametrize("offset", [0, 64, 2 * PAGE + 128])
@pytest.mark.parametrize("mapped", [True, False])
def test_weights_follow_the_flatbuffer(tmp_path: Path, size: int, offset: int, mapped: bool):
    model, file = np.random.default_rng(size).bytes(size), tmp_path / "weights"
    file.write_bytes(np.random.default_rng(offset).bytes(5 * PAGE + 7))
    weights = np.memmap(file, np.uint8, "r", offset)
    kept = ffi.from_buffer(model), ffi.from_buffer(weights)
    flatbuffer = ffi.new("ctx_flatbuffer *", [*kept, size, weights.size, mapped])
    joined = ffi.new("ctx_joined *")
    assert lib.ctx_join(flatbuffer, joined, ffi.new("ctx_error *"))
    data = np.frombuffer(ffi.buffer(joined.data, joined.data_size), np.uint8)
    assert data.ctypes.data % 64 == 0
    assert data[:size].tobytes() == model
    assert data[aligned(size) :].tobytes() == weights.tobytes()
    with file.open("r+b") as stream:
        stream.seek(-1, SEEK_END)
        stream.write(bytes([weights[-1] ^ 1]))
    assert bool(data[-1] == weights[-1]) == mapped  # as the file has it now
    del data
    lib.ctx_joined_free(joined)


def test_memory_is_copied_whatever_is_said_of_it():
    """Only a mapping that others share can be mapped once more."""
    weights = np.arange(256, dtype=np.uint8).repeat(64)
    start = -weights.ctypes.data % 64
    weights = weights[start:]
    kept = ffi.from_buffer(b"model"), ffi.from_buffer(weights)
    flatbuffer = ffi.new("ctx_flatbuffer *", [*kept, 5, weights.size, True])
    joined = ffi.new("ctx_joined *")
    assert lib.ctx_join(flatbuffer, joined, ffi.new("ctx_error *"))
    data = bytes(ffi.buffer(joined.data, joined.data_size))
    assert data[64:] == weights.tobytes()
    lib.ctx_joined_free(joined)
