"""The zoo through ONNX Runtime's own compiler, in every form, and as `prepare` compiles it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.epcontext.container import unpack
from ep_nnapi.nnapi.model import Model
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


def clusters(path: Path) -> Iterator[list[str]]:
    """The operations of each compiled cluster."""
    for node in onnx.load(str(path), load_external_data=False).graph.node:
        if node.op_type == "EPContext":
            (data,) = [a.s for a in node.attribute if a.name == "ep_cache_context"]
            found: Model = unpack(data, path.parent, 8).lowered.model
            yield [operation.spec.name for operation in found.operations]


def results(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(str(path), options()).run(None, feeds)


# `prepare` compiles what the CPU provider's optimizer leaves: that expands HardSwish, a function to
# it, and changes the detectors. ONNX Runtime's compiler shows the provider the nodes themselves.
OTHERWISE = ("mobilenet_v3_large", "segmentation", "detector", "detector_roialign")
EQUAL = [name for name in zoo.MODELS if name not in (*OTHERWISE, "resnet50")]  # resnet18 is like it


@pytest.mark.long
@pytest.mark.parametrize("name", EQUAL)
def test_every_form_is_what_prepare_writes(name: str, tmp_path: Path) -> None:
    """The same clusters, and the same results bit by bit; the source is a file, or bytes."""
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
