"""Damaged files: a clear error or, where ONNX Runtime reads them too, what it says; no crash.

Run in processes of their own, since plain onnxruntime itself may crash on a damaged file.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.checking import planned
from ep_nnapi.context import _PRELUDE, FORMAT_VERSION, Place, pack, unpack
from ep_nnapi.engine import CompiledCluster
from ep_nnapi.rejection import ModelError, OptionError
from tests.prepare.test_fleet import tiny

LEVEL = 8


def context(tmp_path: Path, **options: object) -> bytes:
    """The embedded context of a small model."""
    provider = planned(tiny(tmp_path / "a.onnx"), **options)
    (cluster,) = provider.clusters
    assert isinstance(cluster, CompiledCluster)
    return pack(cluster.lowered).embedded()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Cut short, or with one to four other bytes."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(changed))
        changed[i] ^= rng.randint(1, 255)
    return bytes(changed)


def all_are_refused(data: bytes, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        changed = damaged(data, rng)
        if changed == data:  # two changes of one byte may cancel
            continue
        with pytest.raises(ModelError) as refused:
            unpack(changed, None, LEVEL)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("seed", [3])
def test_damaged_contexts_are_refused(seed: int, tmp_path: Path) -> None:
    all_are_refused(context(tmp_path), 300, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [5])
def test_many_damaged_contexts_are_refused(seed: int, tmp_path: Path) -> None:
    all_are_refused(context(tmp_path), 10_000, seed)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    data = bytearray(context(tmp_path))
    struct.pack_into("<I", data, 8, FORMAT_VERSION + 1)
    with pytest.raises(ModelError, match=f"has format {FORMAT_VERSION + 1}, this version reads"):
        unpack(bytes(data), None, LEVEL)
    assert _PRELUDE.size == 52


def test_a_higher_level_is_refused(tmp_path: Path) -> None:
    data = context(tmp_path)
    needed = unpack(data, None, LEVEL).feature_level
    unpack(data, None, needed)
    with pytest.raises(ModelError, match=f"needs feature level {needed}, the runtime offers"):
        unpack(data, None, needed - 1)


@pytest.mark.parametrize("name", ["../w", "/etc/passwd", "sub/../../w", ".."])
def test_weights_outside_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    (cluster,) = planned(tiny(tmp_path / "in" / "a.onnx")).clusters
    assert isinstance(cluster, CompiledCluster)
    data = pack(cluster.lowered).beside(Place(name, 0, 64, "0" * 64))
    (tmp_path / "w").write_bytes(b"\0" * 64)
    with pytest.raises(ModelError, match="outside of the model's folder"):
        unpack(data, tmp_path / "in", LEVEL)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (cluster,) = planned(tiny(tmp_path / "in" / "a.onnx")).clusters
    assert isinstance(cluster, CompiledCluster)
    (tmp_path / "w").write_bytes(b"\0" * 64)
    (tmp_path / "in" / "w").symlink_to(tmp_path / "w")
    with pytest.raises(ModelError, match="outside of the model's folder"):
        unpack(pack(cluster.lowered).beside(Place("w", 0, 64, "0" * 64)), tmp_path / "in", LEVEL)


def prepared(tmp_path: Path, **options: object) -> Path:
    done = ep_nnapi.prepare(tiny(tmp_path / "a.onnx"), tmp_path / "out", verify=False, **options)
    return tmp_path / "out" / done.models[0].output


def test_a_session_says_why_a_context_cannot_be_used(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    (weights,) = path.parent.glob("*.weights")
    whole = weights.read_bytes()
    spoilt: dict[str, Callable[[], object]] = {
        "corrupt": lambda: weights.write_bytes(bytes([whole[0] ^ 1]) + whole[1:]),
        "truncated": lambda: weights.write_bytes(whole[:-64]),
        "no such file": weights.unlink,
    }
    for says, spoil in spoilt.items():
        spoil()
        with pytest.raises(ModelError, match=says):
            ep_nnapi.check(path)
        weights.write_bytes(whole)
    assert ep_nnapi.check(path).clusters


def outcome(model: Path, out: Path) -> str | None:
    """Why it could not be prepared, if not; its answers are compared with plain onnxruntime's."""
    try:
        (found,) = ep_nnapi.prepare(model, out).models
    except (ModelError, OptionError) as error:
        return str(error)
    return found.error


def same_as_plain(path: Path, count: int, seed: int) -> None:
    """Preparing a damaged model is refused, or gives what plain onnxruntime gives."""
    rng, data = random.Random(seed), path.read_bytes()
    for i in range(count):
        bad = path.with_name(f"bad{i}{path.suffix}")
        bad.write_bytes(damaged(data, rng))
        assert "\n" not in (outcome(bad, path.parent / f"of{i}") or "")


@pytest.mark.parametrize("suffix", [".onnx", ".ort"])
def test_damaged_models_are_refused_or_as_plain_onnxruntime(suffix: str, tmp_path: Path) -> None:
    path = tiny(tmp_path / "a.onnx") if suffix == ".onnx" else prepared(tmp_path)
    same_as_plain(path, 3, 9)


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".onnx", ".ort"])
def test_many_damaged_models(suffix: str, tmp_path: Path) -> None:
    path = tiny(tmp_path / "a.onnx") if suffix == ".onnx" else prepared(tmp_path)
    same_as_plain(path, 500, 13)
