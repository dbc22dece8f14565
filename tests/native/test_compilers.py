"""native/ with gcc and clang, for this machine and for ARM64: no warnings, and the same results."""

import hashlib
import random
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from ep_nnapi.epcontext.container import pack
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import ADD
from tests.native.build import (
    COMPILER,
    COMPILERS,
    DEFINED,
    HERE,
    NATIVE,
    ROOT,
    WARNINGS,
    Build,
    needs_compiler,
    skip_without,
    starter,
)
from tests.native.ort_program import header
from tests.native.sessions import prepared
from tests.native.test_damage import drawn, read, sources
from tests.nnapi.build import one
from tests.programs import ran

each_compiler = pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
pytestmark = needs_compiler
SOURCES = sorted([*NATIVE.glob("*.c"), *HERE.glob("*.c"), ROOT / "examples" / "prepared_model.c"])


def built(compiler: tuple[str, ...], folder: Path) -> Build:
    skip_without(compiler)
    return Build(folder, compiler[0], ("-O2", *compiler[1:]))


@pytest.mark.long
@each_compiler
def test_no_warnings(compiler: tuple[str, ...], tmp_path: Path) -> None:
    """Of every C file for people without Python, -Wconversion included."""
    skip_without(compiler)
    (tmp_path / "onnxruntime_c_api.h").write_text(header())
    headers = ROOT / "ep_nnapi" / "nnapi" / "capi" / "include"
    command = [*compiler, "-std=c11", "-O2", *WARNINGS, "-c", "-o", str(tmp_path / "out.o")]
    command += [*DEFINED, f"-I{NATIVE}", f"-I{headers}", f"-I{tmp_path}"]
    said = [ran(*command, path, status=None) for path in SOURCES]
    assert len(said) > 15
    assert "".join(one.stderr for one in said) == ""
    assert {one.returncode for one in said} == {0}


@pytest.mark.parametrize("elements", [2**29 - 1, 2**29])
@pytest.mark.parametrize("bits", [32, 64])
def test_tensors_have_bytes_that_can_be_counted(bits: int, elements: int, tmp_path: Path) -> None:
    """INT64 tensors of INT32 operands take twice their bytes."""
    tensor = Operand(OperandCode.TENSOR_INT32, (elements,))
    model = one(ADD, [tensor, tensor, 0], [tensor])
    x, z, y = (
        Crossing(name, DType.INT64, (elements,), operand, None, (elements,), np.dtype(np.int32))
        for name, operand in (("x", 0), ("z", 1), ("y", 0))
    )
    container = pack(Lowered(model, Border((x, z), (y,)))).with_embedded_weights()
    flags = {"container": (f"-DCTX_SIZE_MAX=UINT{bits}_MAX",)}
    build = Build(tmp_path, COMPILER or "cc", more=flags)
    refused, _ = read([str(build.program("read_many")), str(build.stand_in)], [container], tmp_path)
    assert refused == (bits == 32 and elements == 2**29)


@each_compiler
def test_sha256(compiler: tuple[str, ...], tmp_path: Path) -> None:
    """With the processor's instructions for it where it has them."""
    sources = (HERE / "hash_prefixes.c", NATIVE / "sha256.c")
    program = built(compiler, tmp_path).compiled("hash_prefixes", *sources)
    data = random.Random(3).randbytes(40_000)
    command = [*starter(compiler), str(program)]
    done = subprocess.run(command, check=True, input=data, capture_output=True)
    lengths = [2**n - 1 for n in range(16)] + [len(data)]
    right = [hashlib.sha256(data[:length]).hexdigest() for length in lengths]
    assert done.stdout.decode().split() == [digest for digest in right for _ in range(2)]


@dataclass(frozen=True)
class Work:
    """What programs are given, and what they make of it when gcc has compiled them."""

    containers: list[bytes]
    model: Path
    image: Path
    counts: tuple[int, int]
    scores: bytes


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    folder = tmp_path_factory.mktemp("work")
    rng, whole = random.Random(5), sources()
    containers = [drawn(whole, rng) for _ in range(400)]
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), folder / "model")
    np.save(folder / "image.npy", np.load(ROOT / "models" / "digits" / "samples.npz")["images"][:1])
    given = Work(containers, model, folder / "image.npy", (0, 0), b"")
    counts, scores = results(Build(folder, COMPILER or "cc"), (), given)
    return replace(given, counts=counts, scores=scores)


def results(build: Build, start: tuple[str, ...], work: Work) -> tuple[tuple[int, int], bytes]:
    """Counts of read_many, and the file of scores of nnapi_run, on the stand-in library."""
    reader = [*start, str(build.program("read_many")), str(build.stand_in)]
    command = [*start, str(build.program("nnapi_run")), str(work.model), "--runs", "1"]
    command += ["--runtime", str(build.stand_in), "--outputs", str(build.folder)]
    command += ["--input", f"image={work.image}"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    counts = read(reader, work.containers, build.folder)
    return counts, (build.folder / "scores.npy").read_bytes()


@pytest.mark.long
@each_compiler
def test_containers_and_runs(compiler: tuple[str, ...], work: Work, tmp_path: Path) -> None:
    """Damaged containers are refused as elsewhere, and nnapi_run writes the same bytes."""
    build = built(compiler, tmp_path)
    assert results(build, starter(compiler), work) == (work.counts, work.scores)
    assert min(work.counts) > 10
