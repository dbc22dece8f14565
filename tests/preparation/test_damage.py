"""Damaged models: a clear error, or the same answer as plain onnxruntime; never a crash."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.preparation import batch
from ep_nnapi.preparation.manifest import Prepared
from ep_nnapi.preparation.worker_pool import step_pool
from tests.preparation.damage import Outcome, damaged, outcomes

DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
SUFFIXES = (".onnx", ".ort")


def model(folder: Path, suffix: str) -> Path:
    """Digits as a file of that kind."""
    path = folder / f"digits{suffix}"
    if suffix == ".ort":
        ep_nnapi.prepare(DIGITS, path, verify=False)
    else:
        shutil.copy(DIGITS, path)
    return path


def context(folder: Path, *, embed: bool) -> Path:
    """Digits compiled, the second convolution left to the CPU."""
    given = {"format": "context", "embed": embed, "exclude": "Conv_5"}
    (made,) = ep_nnapi.prepare(DIGITS, folder / "out", verify=False, **given).models
    return folder / "out" / made.output


def are_clear(found: list[Outcome]) -> Counter[str]:
    """Asserts that each was refused in a sentence, or computes what plain onnxruntime does."""
    kinds: Counter[str] = Counter()
    for one in found:
        kinds[next(k for k in ("died", "refused", "worst", "clusters", "bug") if k in one)] += 1
        assert "bug" not in one, one
        assert float(str(one.get("worst", 0))) <= TOLERANCES[OutputKind.FLOAT32], one
        assert is_sentence(str(one.get("refused", "it says why"))), one
    return kinds


def is_sentence(text: str) -> bool:
    return "\n" not in text and "Traceback" not in text and len(text.split()) >= 3


def models_are_clear(suffix: str, numbers: tuple[int, int, int], folder: Path) -> None:
    path = model(folder, suffix)
    found = outcomes("prepared", path, numbers, folder)
    kinds = are_clear(found)
    assert kinds["refused"]
    if len(found) > 50:
        assert kinds["worst"]
    for number in [n for n, one in enumerate(found, numbers[1]) if "died" in one][:5]:
        bad = path.with_name(f"bad{number}{suffix}")
        bad.write_bytes(damaged(path.read_bytes(), random.Random(f"{numbers[0]} {number}"))[1])
        refused_in_a_sentence(bad, folder / f"of{number}")


def refused_in_a_sentence(bad: Path, out: Path) -> None:
    """Or prepared: then it has been compared."""
    made, said = attempt(bad, out)
    if said is None:
        assert made is not None
        assert made.worst is not None
        assert made.worst <= TOLERANCES[OutputKind.FLOAT32]
        return
    assert bad.name in said
    assert is_sentence(said)
    assert not list(out.glob("*.or*"))


def attempt(bad: Path, out: Path) -> tuple[Prepared | None, str | None]:
    """Entry of the prepared model, or the error as the command line prints it."""
    try:
        (made,) = ep_nnapi.prepare(bad, out).models
    except (ModelError, OptionError) as error:
        return None, str(error)
    return made, made.error and f"{made.model}: {made.error}"


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("protobuf", ["upb", "python"])
def test_names_need_not_be_utf_8(suffix: str, protobuf: str, tmp_path, monkeypatch):
    """Neither with protobuf's implementation in Python, which onnxruntime_extensions asks for."""
    path = model(tmp_path, suffix)
    if protobuf == "python":
        monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", protobuf)
        monkeypatch.setattr(batch, "step_pool", step_pool)  # whose server has the variable
    renamed = path.read_bytes().replace(b"Reshape_9", b"Reshap\xe5_9")
    assert renamed != path.read_bytes()
    path.write_bytes(renamed)
    (made,) = ep_nnapi.prepare(path, tmp_path / "out").models
    assert made.worst is not None
    assert made.worst <= TOLERANCES[OutputKind.FLOAT32]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_models_are_refused_or_as_plain_onnxruntime(suffix: str, tmp_path: Path) -> None:
    models_are_clear(suffix, (9, 0, 30), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_damaged_models(suffix: str, tmp_path: Path) -> None:
    models_are_clear(suffix, (13, 0, 5_000), tmp_path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_prepare_names_the_damaged_file_and_the_reason(suffix: str, tmp_path: Path) -> None:
    path, rng = model(tmp_path, suffix), random.Random(17)
    for number in range(2):
        bad = path.with_name(f"bad{number}{suffix}")
        bad.write_bytes(damaged(path.read_bytes(), rng)[1])
        refused_in_a_sentence(bad, tmp_path / f"of{number}")


def contexts_are_refused(path: Path, numbers: tuple[int, int, int], folder: Path) -> None:
    found = outcomes("checked", path, numbers, folder)
    assert set(are_clear(found)) == {"refused"}


def test_damaged_context_files_are_refused(tmp_path: Path) -> None:
    contexts_are_refused(context(tmp_path, embed=False), (19, 0, 40), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("embed", [True, False])
def test_many_damaged_context_files_are_refused(embed: bool, tmp_path: Path) -> None:
    contexts_are_refused(context(tmp_path, embed=embed), (23, 0, 2_500), tmp_path)
