"""What the C reader inflates is what zlib does, and it refuses what zlib refuses."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.native.build import COMPILER, HERE, NATIVE, SANITIZED, Build, needs_compiler

STRATEGIES = zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED


def deflated(data: bytes, level: int, strategy: int, before: bytes = b"") -> bytes:
    """As RFC 1951 has it, without a header."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy, before)
    return packer.compress(data) + packer.flush()


def by_zlib(packed: bytes, size: int, before: bytes = b"") -> bytes | None:
    """What zlib makes of all of it; None: not that many bytes, or it is corrupt."""
    unpacker = zlib.decompressobj(-15, before)
    try:
        data = unpacker.decompress(packed, size + 1)
    except zlib.error:
        return None
    whole = unpacker.eof and not unpacker.unused_data and len(data) == size
    return data if whole else None


def drawn(rng: random.Random) -> bytes:
    """Bytes of one of four kinds: noise, few values, repeated parts, one value."""
    size = rng.choice((1, 2, 300, 5000, 70000))
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(size)
    if kind == 1:
        return bytes(rng.choices(b"abcdefgh\0", (50, 20, 10, 5, 4, 3, 2, 1, 90), k=size))
    if kind == 2:
        part = rng.randbytes(rng.choice((7, 259, 33000)))
        return (part * (size // len(part) + 1))[:size]
    return bytes([rng.randrange(256)]) * size


def damaged(packed: bytes, rng: random.Random) -> bytes:
    """With some bits changed, cut, or longer; the first bytes, which have the codes, above all."""
    changed = bytearray(packed)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(min(len(changed), rng.choice((4, 100, len(changed)))))
        changed[at] ^= 1 << rng.randrange(8)
    cut = rng.choice((None, None, rng.randrange(len(changed) + 1)))
    return bytes(changed[:cut]) + rng.choice((b"", b"", rng.randbytes(3)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test program under both sanitizers."""
    build = Build(tmp_path_factory.mktemp("inflate"), COMPILER or "", SANITIZED)
    return build.compiled("inflate_many", HERE / "inflate_many.c", NATIVE / "inflate.c")


def by_c(program: Path, given: list[tuple[bytes, int]], before: bytes = b"") -> list[bytes | None]:
    """What the C reader makes of each, to that many bytes, as following others."""
    records = (
        struct.pack("<III", len(packed), len(before), size) + packed + before
        for packed, size in given
    )
    done = subprocess.run(
        [program], input=b"".join(records), capture_output=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    found, at = list[bytes | None](), 0
    for _, size in given:
        right = done.stdout[at]
        found.append(done.stdout[at + 1 : at + 1 + size] if right else None)
        at += 1 + size * right
    assert at == len(done.stdout)
    return found


@needs_compiler
def test_every_kind_of_block(program: Path) -> None:
    rng = random.Random(0)
    data = [drawn(rng) for _ in range(40)]
    packed = [deflated(d, level, s) for d in data for level in (0, 1, 6, 9) for s in STRATEGIES]
    sizes = [len(d) for d in data for _ in range(4 * len(STRATEGIES))]
    found = by_c(program, list(zip(packed, sizes, strict=True)))
    assert found == [d for d in data for _ in range(4 * len(STRATEGIES))]


@needs_compiler
@pytest.mark.parametrize("size", [300, 1000, 32000])
def test_what_was_before_is_referred_to(program: Path, size: int) -> None:
    """With fewer bytes before it, it is refused, or as with zlib another one."""
    before = random.Random(size).randbytes(size)
    right = before[-300:] + b"end" + before[:300]
    packed = deflated(right, 9, zlib.Z_DEFAULT_STRATEGY, before)
    assert len(packed) < 50
    assert by_c(program, [(packed, len(right))], before) == [right]
    for fewer in (before[2:], before[:-2], b""):
        found = by_zlib(packed, len(right), fewer)
        assert found != right
        assert by_c(program, [(packed, len(right))], fewer) == [found]


@needs_compiler
@pytest.mark.parametrize("other", [-1, 1])
def test_another_number_of_bytes_is_refused(program: Path, other: int) -> None:
    packed = deflated(b"abc" * 1000, 9, zlib.Z_DEFAULT_STRATEGY)
    assert by_c(program, [(packed, 3000 + other), (packed, 3000)]) == [None, b"abc" * 1000]


@needs_compiler
@pytest.mark.parametrize("seed", range(3))
def test_damaged_bytes_are_to_c_what_they_are_to_zlib(program: Path, seed: int) -> None:
    rng = random.Random(seed)
    whole = [
        (deflated(data, rng.choice((0, 6, 9)), rng.choice(STRATEGIES)), len(data))
        for data in (drawn(rng)[:5000] for _ in range(150))
    ]
    given = [(damaged(packed, rng), size) for packed, size in whole for _ in range(40)]
    before = rng.randbytes(rng.choice((1, 500, 5000)))
    theirs = [by_zlib(packed, size, before) for packed, size in given]
    assert by_c(program, given, before) == theirs
    assert None in theirs
    assert any(theirs)  # such as other literals
