"""The zoo's clusters as .tflite in the C plugin: the bits of LiteRT's own interpreter."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from ep_nnapi.diagnostics.inspect_context import containers
from ep_nnapi.epcontext.container import unpack
from ep_nnapi.epcontext.contexts import write_checksum
from ep_nnapi.epcontext.layout import AlternativeKind, aligned
from ep_nnapi.litert import package
from models.quantized import quantized
from models.zoo import MODELS, sample_inputs
from tests.litert.needs import LITERT
from tests.native.build import needs_compiler
from tests.native.sessions import prepared, session
from tests.native.test_zoo import SIZES

pytestmark = [needs_compiler, LITERT, pytest.mark.long]
THREADS = 2


def clusters(path: Path) -> Iterator[tuple[list[str], list[str], bytes]]:
    """The inputs and outputs of each, and its flatbuffer with what lies behind it."""
    for _, data in containers(onnx.load(path, load_external_data=False)):
        content = unpack(data, path.parent, 8)
        first = content.alternatives[0]
        assert first.kind is AlternativeKind.LITERT
        assert first.data is not None
        ends = first.border.inputs, first.border.outputs
        inputs, outputs = ([crossing.name for crossing in side] for side in ends)
        model = first.data.ljust(aligned(len(first.data)), b"\0")
        yield inputs, outputs, model + content.weights.tobytes()


def show(path: Path, names: set[str]) -> None:
    """Makes values outputs of the model too, the checksum right again."""
    proto = onnx.load(path, load_external_data=False)
    there = {value.name for value in (*proto.graph.output, *proto.graph.input)}
    known = {value.name: value for value in proto.graph.value_info}
    for name in sorted(names - there):
        proto.graph.output.append(known.get(name) or helper.make_empty_tensor_value_info(name))
    for entry in proto.metadata_props:
        if entry.key == "ep_nnapi.sha256":
            entry.value = "0" * len(entry.value)
    path.write_bytes(proto.SerializeToString())
    write_checksum(path)


def interpreted(flatbuffer: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter

    own = Interpreter(model_content=flatbuffer, num_threads=THREADS)
    own.allocate_tensors()
    found: dict[str, np.ndarray] = own.get_signature_runner()(**feeds)
    return found


@pytest.mark.parametrize("form", ["float", "u8s8", "s8s8"])
@pytest.mark.parametrize("name", SIZES)
def test_bits_are_those_of_the_interpreter(name: str, form: str, tmp_path: Path) -> None:
    made = MODELS[name](size=SIZES[name])
    feeds = sample_inputs(made)
    proto = made if form == "float" else quantized(name, form, size=SIZES[name])
    path = prepared(proto, tmp_path, alternatives="litert,cpu")
    found = list(clusters(path))
    assert found
    show(path, {value for inputs, outputs, _ in found for value in (*inputs, *outputs)})
    receipt = tmp_path / "receipt.json"
    options = {"prefer": "litert-cpu", "litert": package.library()[0], "receipt": str(receipt)}
    plugin = session(path, litert_threads=str(THREADS), **options)
    names = [value.name for value in plugin.get_outputs()]
    values = {**feeds, **dict(zip(names, plugin.run(None, feeds), strict=True))}
    for inputs, outputs, flatbuffer in found:
        wanted = interpreted(flatbuffer, {name: values[name] for name in inputs})
        for output in outputs:
            assert values[output].tobytes() == wanted[output].tobytes(), output
    del plugin
    for cluster in json.loads(receipt.read_text())["clusters"]:
        assert (cluster["device"], cluster["tried"]) == ("litert-cpu", [])
        assert cluster["runs"] == cluster["device_runs"] == 1
