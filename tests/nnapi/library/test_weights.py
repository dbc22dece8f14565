"""Large constants in shared memory: each stored once, aligned, and given back when unused."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.weights import ALIGNMENT, SharedWeights
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from tests.nnapi.build import F32, NONE, constant, tensor
from tests.nnapi.library.recorded import Recorded


def sums(*weights: np.ndarray) -> Model:
    """x + each of the weights."""
    x = tensor(F32, weights[0].size)
    operands = [x, NONE, *(constant(w) for w in weights), *[x] * len(weights)]
    count = len(weights)
    operations = tuple(Operation(spec.ADD, (0, 2 + i, 1), (2 + count + i,)) for i in range(count))
    outputs = tuple(range(2 + count, 2 + 2 * count))
    return Model(tuple(operands), operations, (0,), outputs)


def data(model: Model) -> list[Data]:
    """The constants that the model adds."""
    return [o.value for o in model.operands[2:] if isinstance(o.value, Data)]


def floats(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(count, np.float32)


def address(value: Data) -> int:
    return int(value.bytes.ctypes.data)


def test_a_shared_model_is_equal_and_its_constants_have_places() -> None:
    shared = SharedWeights(Recorded())
    model = sums(floats(100), floats(100, seed=1))
    found = shared.share(model)
    assert found == model
    places = [shared.place(d) for d in data(found)]
    assert [p.offset for p in places] == [0, 448]  # 400 bytes, to the next multiple of 64
    assert places[0].memory is places[1].memory
    assert all(address(d) % ALIGNMENT == 0 for d in data(found))
    assert not any(d.bytes.flags.writeable for d in data(found))


def test_constants_up_to_128_bytes_stay_where_they_are() -> None:
    functions = Recorded()
    shared = SharedWeights(functions)
    model = sums(floats(32))
    assert data(shared.share(model))[0] is data(model)[0]
    assert shared.place(data(model)[0]) is None
    assert not functions.calls["Memory_createFromFd"]


def test_equal_constants_are_stored_once() -> None:
    functions = Recorded()
    shared = SharedWeights(functions)
    first = shared.share(sums(floats(100), floats(100)))
    second = shared.share(sums(floats(100)))
    assert len({address(d) for d in (*data(first), *data(second))}) == 1
    assert shared.share(first) is first
    assert functions.calls["Memory_createFromFd"] == 1


def test_new_constants_are_added_beside_the_old_ones() -> None:
    functions = Recorded()
    shared = SharedWeights(functions)
    first = shared.share(sums(floats(100)))
    second = shared.share(sums(floats(100), floats(100, seed=1)))
    assert address(data(second)[0]) == address(data(first)[0])
    places = [shared.place(d) for d in data(second)]
    assert places[0].memory is not places[1].memory
    assert functions.calls["Memory_createFromFd"] == 2


def test_memory_is_given_back_with_the_last_model() -> None:
    functions = Recorded()
    shared = SharedWeights(functions)
    first, second = (shared.share(sums(floats(100))) for _ in range(2))
    del first
    gc.collect()
    assert not functions.calls["Memory_free"]
    del second
    gc.collect()
    assert functions.calls["Memory_free"] == 1
    assert data(shared.share(sums(floats(100))))[0] == Data.of(floats(100))  # stored again


def mapped(path: Path, offset: int = 0) -> np.memmap:
    return np.memmap(path, np.uint8, "r", offset, (4000,)).view(np.float32)


@pytest.mark.parametrize("offset", [0, 16, 5000])
def test_a_mapped_file_is_not_copied(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(offset) + floats(1000).tobytes())
    shared = SharedWeights(Recorded())
    model = sums(mapped(path, offset)[:900])
    found = shared.share(model)
    assert found is model
    (value,) = data(found)
    assert shared.place(value).offset == offset % 4096  # memory objects begin at a page


def test_a_small_constant_of_a_mapped_file_is_given_as_it_is(tmp_path: Path) -> None:
    """As the C plugin does: NNAPI copies it, and drivers read no scalars from memory."""
    path = tmp_path / "weights"
    path.write_bytes(floats(1000).tobytes())
    shared, whole = SharedWeights(Recorded()), mapped(path)
    large, small = (data(sums(whole[:n]))[0] for n in (900, 4))
    shared.share(sums(whole[:900]))
    assert shared.place(large) is not None
    assert shared.place(small) is None


def test_a_file_replaced_since_is_copied_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(floats(1000).tobytes())
    model = sums(mapped(path))
    for replacement in (floats(1000, seed=1).tobytes(), b"short", None):
        other = tmp_path / "other"
        other.write_bytes(replacement or b"")
        os.replace(other, path)
        if replacement is None:
            path.unlink()
        (value,) = data(SharedWeights(Recorded()).share(model))
        assert value == data(model)[0]
        assert value is not data(model)[0]


def test_a_library_that_refuses_the_memory() -> None:
    shared = SharedWeights(Recorded(fails={"Memory_createFromFd": ResultCode.UNMAPPABLE}))
    with pytest.raises(RuntimeFailure, match="ANEURALNETWORKS_UNMAPPABLE"):
        shared.share(sums(floats(100)))


def test_without_memory_the_size_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    shared = SharedWeights(Recorded())
    with pytest.raises(RuntimeFailure, match="no shared memory for 448 bytes of weights: No space"):
        shared.share(sums(floats(100)))


def test_a_forked_child_begins_a_file_of_its_own() -> None:
    """The parent's is shared with it: what the child wrote there, the parent would read."""
    shared = SharedWeights(Recorded())
    before = shared.share(sums(floats(100)))
    shared.after_fork()
    after = shared.share(sums(floats(100, seed=1)))
    assert shared.place(data(after)[0]).offset == 0
    np.testing.assert_array_equal(data(before)[0].bytes.view(np.float32), floats(100))


def test_operands_without_constants_have_no_place() -> None:
    shared = SharedWeights(Recorded())
    assert shared.place(Data(np.zeros(1000, np.uint8))) is None
    assert shared.share(sums(floats(8))).operands[0] == Operand(F32, (8,))
