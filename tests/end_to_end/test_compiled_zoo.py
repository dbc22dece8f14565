"""The zoo through ONNX Runtime's own compiler, in every form, and as `prepare` compiles it."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.epcontext.container import unpack
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.model import Data
from models import zoo
from tests.end_to_end.test_zoo import built

BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # what prepare compiles
THRESHOLD = 64  # bytes of an initializer from which it is written outside
FORMS = [
    ("file", True, None),
    ("file", True, "initializers.bin"),
    ("file", False, None),
    ("file", False, "initializers.bin"),
    ("bytes", True, None),
    ("stream", True, None),
]


def options() -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    ep_nnapi.append_execution_provider(made)
    return made


def compile_to(
    form: str, path: Path, source: str | bytes, embed: bool, external: str | None
) -> None:
    compiler = onnxruntime.ModelCompiler(
        options(),
        source,
        embed_compiled_data_into_model=embed,
        external_initializers_file_path=external,
        external_initializers_size_threshold=THRESHOLD,
        graph_optimization_level=BASIC,
    )
    if form == "file":
        compiler.compile_to_file(str(path))
    elif form == "bytes":
        path.write_bytes(compiler.compile_to_bytes())
    else:
        with path.open("wb") as stream:
            compiler.compile_to_stream(lambda part: stream.write(bytes(part)))


def terms(lowered: Lowered) -> tuple[dict[bytes, bytes], list[str]]:
    """The cluster's outputs as terms over its inputs and constants, and its operations by name.

    Equal for clusters that differ only in the order of independent operations: ONNX Runtime orders
    nodes by their number, and saving a model numbers them again.
    """
    model, border = lowered.model, lowered.border
    known = {model.inputs[c.operand]: digest(replace(c, operand=0)) for c in border.inputs}
    for index, operand in enumerate(model.operands):
        if operand.value is not None:
            data = operand.value.bytes if isinstance(operand.value, Data) else b""
            known[index] = digest(replace(operand, value=None), hashlib.sha256(data).digest())
    for operation in model.operations:
        term = digest(operation.spec.name, *(known[i] for i in operation.inputs))
        known.update((index, digest(term, n)) for n, index in enumerate(operation.outputs))
    outputs = {
        digest(replace(c, operand=0)): known[model.outputs[c.operand]] for c in border.outputs
    }
    return outputs, sorted(operation.spec.name for operation in model.operations)


def digest(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def clusters(path: Path) -> Iterator[tuple[dict[bytes, bytes], list[str]]]:
    """What each compiled cluster computes."""
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        if node.op_type == "EPContext":
            (data,) = [a.s for a in node.attribute if a.name == "ep_cache_context"]
            yield terms(unpack(data, path.parent, 8).lowered)


def results(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(str(path), options()).run(None, feeds)


@pytest.mark.long
@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_form_is_what_prepare_writes(name: str, tmp_path: Path) -> None:
    """The same NNAPI models, and the same results bit by bit; the source is a file, or bytes."""
    source = built(name, published=False)
    path, feeds = tmp_path / f"{name}.onnx", zoo.sample_inputs(source)
    onnx.save(source, path)
    ep_nnapi.prepare(path, tmp_path / "prepared", format="context", feature_level=8)
    (prepared,) = (tmp_path / "prepared").rglob("*.onnx")
    wanted, expected = list(clusters(prepared)), results(prepared, feeds)
    assert wanted
    for number, (form, embed, external) in enumerate(FORMS):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = path.read_bytes() if number % 2 else str(path)
        compile_to(form, folder / "m.onnx", given, embed, external)
        assert list(clusters(folder / "m.onnx")) == wanted, (form, embed, external)
        for a, b in zip(results(folder / "m.onnx", feeds), expected, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{form} {embed} {external}")
