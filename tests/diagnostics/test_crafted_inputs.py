"""Files of inputs that somebody made to do harm: one sentence, and no more memory than is there."""

import io
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.diagnostics import inputs
from ep_nnapi.diagnostics.inputs import read_feeds
from ep_nnapi.nnapi.errors import OptionError
from tests.diagnostics.test_inputs import GREY, picture, refused
from tests.preparation.damage import damaged


def promising(shape: tuple[int, ...]) -> bytes:
    """A .npy file whose header says `shape`, with ten bytes behind it."""
    stream = io.BytesIO()
    np.save(stream, np.zeros(2, np.float32))
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    room = len(stream.getvalue()) - 10 - 8
    return stream.getvalue()[:10] + head.ljust(room - 1).encode() + b"\n" + bytes(10)


SHAPES = [(3,), (2**40,), (2**62, 2**62), (2**31,) * 4, (10**30,), (-1,), (2**32, 2**31, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_headers_that_promise_too_much(shape: tuple[int, ...], name: str, tmp_path: Path):
    path = tmp_path / name
    if name == "a.npy":
        path.write_bytes(promising(shape))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("image.npy", promising(shape))
    refused([str(path)], [GREY], f"{name}: not a .npy, .npz or image file")


def test_an_archive_that_unpacks_to_more_than_the_memory(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", image=np.zeros((1, 1, 4, 6)))
    monkeypatch.setattr(inputs, "_memory", lambda: 2 * 320 - 1)
    refused([str(tmp_path / "a.npz")], [GREY], "unpacked it has 320 bytes, more than half")
    monkeypatch.setattr(inputs, "_memory", lambda: 2 * 320)
    assert read_feeds([str(tmp_path / "a.npz")], [GREY])


def test_an_archive_of_other_files(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("image", "no array")
    refused([str(tmp_path / "a.npz")], [GREY], "a.npz: not a .npy, .npz or image file")


def test_a_header_without_an_end(tmp_path: Path):
    deep = b"(" * 9000
    content = b"\x93NUMPY\x01\x00" + len(deep).to_bytes(2, "little") + deep
    (tmp_path / "a.npy").write_bytes(content)
    refused([str(tmp_path / "a.npy")], [GREY], "a.npy: not a .npy, .npz or image file")


def test_an_image_of_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    image = pytest.importorskip("PIL.Image")
    picture(tmp_path / "a.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 2)
    refused([str(tmp_path / "a.png")], [GREY], "an image of more pixels than pillow reads")


@pytest.mark.filterwarnings("ignore:overflow")  # of numbers that float32 does not hold
@pytest.mark.parametrize("seed", [41])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_damaged_arrays_are_arrays_or_refused(seed: int, name: str, tmp_path: Path):
    array, rng = np.random.default_rng(0).random((1, 1, 4, 6)), random.Random(seed)
    if name == "a.npy":
        np.save(tmp_path / name, array)
    else:
        np.savez_compressed(tmp_path / name, image=array)
    whole = (tmp_path / name).read_bytes()
    for _ in range(1000):
        (tmp_path / name).write_bytes(damaged(whole, rng)[1])
        try:
            read_feeds([str(tmp_path / name)], [GREY])
        except OptionError as error:
            assert "\n" not in str(error)  # noqa: PT017 (either is right)
