"""Prepared models on disk: found again, and never a wrong one."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime, cache
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.nnapi.spec import FULLY_CONNECTED

TOKEN = bytes(range(32))
F32, I32 = OperandCode.TENSOR_FLOAT32, OperandCode.INT32
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(seed: int = 0, units: int = 4) -> Model:
    """y [2, units] = x [2, 3] . weights + bias."""
    weights = np.random.default_rng(seed).normal(size=(units, 3)).astype(np.float32)
    bias = np.ones(units, np.float32)
    operands = (
        Operand(F32, (2, 3)),
        Operand(F32, weights.shape, value=Data.of(weights)),
        Operand(F32, bias.shape, value=Data.of(bias)),
        Operand(I32, value=Data.of(np.array(0, np.int32))),
        Operand(F32, (2, units)),
    )
    return Model(operands, (Operation(FULLY_CONNECTED, (0, 1, 2, 3), (4,)),), (0,), (4,))


def compiled(directory: Path, described: Model, token: bytes = TOKEN) -> tuple[str, np.ndarray]:
    """What the cache did, and what the model computes."""
    before, runtime = cache.COUNTS.copy(), HostRuntime()
    options = CompileOptions(cache_dir=str(directory), token=token)
    made = runtime.compile(described, runtime.devices()[0], options)
    return " ".join(cache.COUNTS - before), made.run([X])[0]


def expected(described: Model) -> np.ndarray:
    return X @ described.operands[1].array.T + 1


def file(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def test_the_second_compilation_prepares_nothing(tmp_path: Path) -> None:
    first, second = compiled(tmp_path, model()), compiled(tmp_path, model())
    assert first[0] == "prepared stored"
    assert second[0] == "restored"
    assert first[1].tobytes() == second[1].tobytes()
    np.testing.assert_allclose(second[1], expected(model()), rtol=1e-6)


def test_without_a_cache_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runtime = HostRuntime()
    runtime.compile(model(), runtime.devices()[0])
    assert not [*tmp_path.iterdir()]


def test_each_token_has_a_file(tmp_path: Path) -> None:
    assert compiled(tmp_path, model())[0] == "prepared stored"
    assert compiled(tmp_path, model(1), bytes(32))[0] == "prepared stored"
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("other", [model(seed=1), model(units=5)], ids=["weights", "shape"])
def test_a_file_of_another_model_is_replaced(tmp_path: Path, other: Model) -> None:
    compiled(tmp_path, model())
    done, result = compiled(tmp_path, other)
    assert done == "prepared stored"
    np.testing.assert_allclose(result, expected(other), rtol=1e-6)
    assert compiled(tmp_path, other)[0] == "restored"


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
    "longer": lambda data: data + b"x",
    **{f"cut at {at}": cut(at) for at in (0.01, 0.1, 0.5, 0.999)},
    **{f"flipped at {at}": flipped(at) for at in (0, 0.02, 0.05, 0.3, 0.6, 0.9, 0.999)},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_rewritten(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    compiled(tmp_path, model())
    path = file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    done, result = compiled(tmp_path, model())
    assert done == "prepared stored"
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)
    assert compiled(tmp_path, model())[0] == "restored"


class Harmful:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("harm",)


def test_a_file_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound in every other respect: a pickle that would make a directory."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "cache"
    directory.mkdir()
    compiled(directory, model())
    about = cache.fingerprint(HostRuntime()._devices[0], model())
    file(directory).write_bytes(cache._packed(about, Harmful()))
    assert compiled(directory, model())[0] == "prepared stored"
    assert not (tmp_path / "harm").exists()
    with pytest.raises(pickle.UnpicklingError, match="mkdir"):
        cache._unpacked(memoryview(cache._packed(about, Harmful())), about)


def test_a_cache_that_cannot_be_written_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done, result = compiled(tmp_path / "nowhere", model())
    assert done == "prepared"
    assert "is not cached" in caplog.text
    np.testing.assert_allclose(result, expected(model()), rtol=1e-6)
