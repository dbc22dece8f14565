"""Results of operations on constants on disk: found again, and never a wrong one."""

import hashlib
import os
import resource
import signal
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime, cache
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions, model_digest
from ep_nnapi.nnapi.spec import ADD, FULLY_CONNECTED, RELU

TOKEN = bytes(range(32))
F32, I32 = OperandCode.TENSOR_FLOAT32, OperandCode.INT32
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(seed: int = 0, units: int = 4, relaxed: bool = False) -> Model:
    """y [2, units] = x [2, 3] . (weights + weights) + bias: two operations, one on constants."""
    weights = np.random.default_rng(seed).normal(size=(units, 3)).astype(np.float32)
    bias = np.ones(units, np.float32)
    operands = (
        Operand(F32, (2, 3)),
        Operand(F32, weights.shape, value=Data.of(weights)),
        Operand(F32, bias.shape, value=Data.of(bias)),
        Operand(I32, value=Data.of(np.array(0, np.int32))),
        Operand(F32, weights.shape),
        Operand(F32, (2, units)),
    )
    operations = (Operation(ADD, (1, 1, 3), (4,)), Operation(FULLY_CONNECTED, (0, 4, 2, 3), (5,)))
    return Model(operands, operations, (0,), (5,), relaxed)


def plain_model() -> Model:
    """No operation on constants."""
    operands = Operand(F32, (2, 3)), Operand(F32, (2, 3))
    return Model(operands, (Operation(RELU, (0,), (1,)),), (0,), (1,))


def compiled(
    directory: Path, described: Model, token: bytes | None = TOKEN
) -> tuple[str, np.ndarray]:
    """Actions of the cache, and the model's outputs."""
    before, runtime = cache.COUNTS.copy(), HostRuntime()
    options = CompileOptions(cache_dir=str(directory), token=token)
    made = runtime.compile(described, runtime.devices()[0], options)
    return " ".join(sorted(cache.COUNTS - before)), made.run([X])[0]


def expected(described: Model) -> np.ndarray:
    return X @ (2 * described.operands[1].array.T) + 1


def file(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def test_the_second_compilation_computes_nothing(tmp_path: Path) -> None:
    first, second = compiled(tmp_path, model()), compiled(tmp_path, model())
    assert first[0] == "computed stored"
    assert second[0] == "read restored"
    assert first[1].tobytes() == second[1].tobytes()
    np.testing.assert_allclose(second[1], expected(model()), rtol=1e-6)


def test_without_a_token_a_model_is_found_by_its_digest(tmp_path: Path) -> None:
    assert compiled(tmp_path, model(), None)[0] == "computed stored"
    assert compiled(tmp_path, model(), None)[0] == "read restored"
    assert file(tmp_path).name.startswith(model_digest(model()).hex())
    assert compiled(tmp_path, model(1), None)[0] == "computed stored"


def test_without_a_cache_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runtime = HostRuntime()
    runtime.compile(model(), runtime.devices()[0])
    assert not [*tmp_path.iterdir()]


def test_each_token_has_a_file(tmp_path: Path) -> None:
    assert compiled(tmp_path, model())[0] == "computed stored"
    assert compiled(tmp_path, model(1), bytes(32))[0] == "computed stored"
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("other", [model(seed=1), model(units=5)], ids=["weights", "shape"])
def test_a_file_of_another_model_is_replaced(tmp_path: Path, other: Model) -> None:
    compiled(tmp_path, model())
    done, result = compiled(tmp_path, other)
    assert done == "computed stored"
    np.testing.assert_allclose(result, expected(other), rtol=1e-6)
    assert compiled(tmp_path, other)[0] == "read restored"


def cut(at: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(len(data) * at)]


def flipped(at: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[int(len(data) * at)] ^= 0xFF
        return bytes(changed)

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "another file": lambda data: b"\x7fELF" + bytes(1000),
    "many records": lambda data: data[:80] + b"\xff" * 4 + data[84:],
    **{f"cut at {at}": cut(at) for at in (0.01, 0.1, 0.5, 0.999)},
    **{
        f"flipped at {at}": flipped(at)
        for at in (0, 0.05, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 0.999)
    },
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_rewritten(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    compiled(tmp_path, model())
    path = file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    done, result = compiled(tmp_path, model())
    assert done == "computed stored"
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)
    assert compiled(tmp_path, model())[0] == "read restored"


def test_a_model_without_results_is_remembered_too(tmp_path: Path) -> None:
    assert [compiled(tmp_path, plain_model())[0] for _ in range(2)] == ["stored", "restored"]


def test_results_of_a_rounding_device_are_its_own(tmp_path: Path) -> None:
    """The same model on the same device name: what is rounded to float16 is not read as float32."""
    runtime = HostRuntime()
    asked = CompileOptions(cache_dir=str(tmp_path), token=TOKEN)
    runtime.compile(model(relaxed=True), runtime.devices()[0], replace(asked, precise=True))
    rounded = compiled(tmp_path, model(relaxed=True))[1]
    assert np.array_equal(rounded, rounded.astype(np.float16))
    assert not np.array_equal(rounded, expected(model(relaxed=True)))


def record(data: bytes, **changed: int) -> bytes:
    """The file with another offset in its only record, sound in every other respect."""
    magic, maker, _, count = cache._PRELUDE.unpack_from(data)
    key, _, digest = cache._RECORD.unpack_from(data, cache._PRELUDE.size)
    table = cache._RECORD.pack(key, changed["offset"], digest)
    prelude = cache._PRELUDE.pack(magic, maker, hashlib.sha256(table).digest(), count)
    return prelude + table + data[len(prelude) + len(table) :]


@pytest.mark.parametrize("offset", [0, 1, 2**40, 2**63, 2**64 - 1])
def test_a_record_that_points_elsewhere_is_not_followed(tmp_path: Path, offset: int) -> None:
    compiled(tmp_path, model())
    path = file(tmp_path)
    path.write_bytes(record(path.read_bytes(), offset=offset))
    done, result = compiled(tmp_path, model())
    assert done == "computed stored"
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)


def test_a_record_without_its_bytes_is_computed(tmp_path: Path) -> None:
    """At the limit: the offset is the end of the file."""
    compiled(tmp_path, model())
    path = file(tmp_path)
    path.write_bytes(record(path.read_bytes(), offset=path.stat().st_size))
    assert compiled(tmp_path, model())[0] == "computed stored"


def test_the_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    before = os.umask(0)
    try:
        assert compiled(folder, model())[0] == "computed stored"
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_others_can_write_into_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    folder = tmp_path / "cache"
    assert compiled(folder, model())[0] == "computed stored"
    folder.chmod(mode)
    assert compiled(folder, model())[0] == ""
    assert "others can write into" in caplog.text
    folder.chmod(0o755)
    assert compiled(folder, model())[0] == "read restored"


def test_a_file_others_can_write_into_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(tmp_path, model())
    file(tmp_path).chmod(0o622)
    assert compiled(tmp_path, model())[0] == "computed stored"
    assert "others can write into" in caplog.text
    assert compiled(tmp_path, model())[0] == "read restored"


def test_what_belongs_to_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(tmp_path, model())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert compiled(tmp_path, model())[0] == ""
    assert "belongs to another user" in caplog.text


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    compiled(tmp_path / "cache", model())
    path, elsewhere = file(tmp_path / "cache"), tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert compiled(tmp_path / "cache", model(seed=1))[0] == "computed stored"
    assert not path.is_symlink()
    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a FIFO", "a folder"])
def test_what_is_no_file_is_ignored(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Opening a FIFO for reading waits for a writer, unless it is asked not to."""
    compiled(tmp_path, model())
    path = file(tmp_path)
    path.unlink()
    make(path)
    done, result = compiled(tmp_path, model())
    assert done == ("computed" if make is os.mkdir else "computed stored")
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)
    assert file(tmp_path) == path  # and nothing temporary is left beside it


def test_a_full_disk_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file may exceed 100 bytes: what write says on a full disk comes at the same places."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        done, result = compiled(tmp_path, model())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert done == "computed"
    assert "is not cached" in caplog.text
    assert not [*tmp_path.iterdir()]
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)


def test_a_folder_that_cannot_be_made_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done, result = compiled(tmp_path / "nowhere" / "cache", model())
    assert done == ""
    assert "cache is not used" in caplog.text
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)
