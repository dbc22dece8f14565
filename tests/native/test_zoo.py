"""The zoo, prepared at every feature level: the plugin gives the bits of Python's provider.

In a session in Python and in a C program with ONNX Runtime's library. Float networks are made with
symbolic sizes, which `fix` makes fixed. The long suite has them float and with one quantization
scheme, the one whose models differ at the most levels; `make test-native-zoo` has all schemes.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from models.quantized import SCHEMES, quantized
from models.zoo import MODELS, sample_inputs
from tests.native.build import HERE, needs_compiler
from tests.native.ort_program import linked
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session, session
from tests.programs import ran

Feeds = Mapping[str, np.ndarray]
pytestmark = [needs_compiler, pytest.mark.long]
LEVELS = range(1, 9)
FORMS = ("float", *SCHEMES) if os.environ.get("SCHEMES") == "all" else ("float", "s8s8")
SIZES = {
    **{"mlp": 784, "espcn": 8, "kws_dscnn": 49, "vgg_small": 16, "transformer_encoder": 8},
    **{"denoiser": 16, "denoiser_lstm": 4, "squeezenet1_1": 33, "detector": 32, "resnet18": 32},
    **{"mobilenet_v1": 32, "mobilenet_v2": 32, "segmentation": 32, "detector_roialign": 16},
    **{"efficientnet_lite0": 32, "mobilenet_v3_large": 32, "resnet50": 32},
}
"""Small ones at which pictures still have an extent in most layers."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked(tmp_path_factory.mktemp("program"), HERE / "run_model.c")


def network(name: str, form: str) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """The model, float or of a quantization scheme, and the sizes of its inputs."""
    small = MODELS[name](size=SIZES[name])
    shapes = {key: feed.shape for key, feed in sample_inputs(small).items()}
    if form != "float":
        return quantized(name, form, size=SIZES[name]), shapes
    sizes = {} if "size" in MODELS[name].dynamic else {"size": SIZES[name]}
    return MODELS[name](**sizes, dynamic=MODELS[name].dynamic), shapes


def contexts(
    model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], folder: Path
) -> Iterator[tuple[int, Path]]:
    """The prepared models that have clusters and differ, by the lowest level that each is for."""
    seen = set()
    for level in LEVELS:
        path = prepared(model, folder / str(level), feature_level=level, fix=shapes)
        graph = onnx.load(path, load_external_data=False).graph
        weights = b"".join(file.read_bytes() for file in path.parent.glob("*.weights"))
        digest = hashlib.sha256(graph.SerializeToString(deterministic=True) + weights).digest()
        if digest not in seen and any(node.op_type == "EPContext" for node in graph.node):
            yield level, path
        seen.add(digest)


def run_program(program: Path, models: list[Path], feeds: Feeds, folder: Path) -> list[bytes]:
    """The contents of the outputs of each model in a C program."""
    words = [program, ep_nnapi.context_library_path(), LIBRARY, REFERENCE]
    for index, model in enumerate(models):
        names = [i.name for i in onnx.load(model, load_external_data=False).graph.input]
        (folder / f"inputs{index}").write_bytes(b"".join(feeds[name].tobytes() for name in names))
        words += [model, folder / f"inputs{index}", folder / f"outputs{index}"]
    ran(*words, timeout=300)
    return [(folder / f"outputs{index}").read_bytes() for index in range(len(models))]


def outputs(made: onnxruntime.InferenceSession, feeds: Feeds) -> list[tuple[object, ...]]:
    """The type, shape and contents of each."""
    return [(o.dtype, o.shape, o.tobytes()) for o in made.run(None, dict(feeds))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SIZES)
def test_same_bits_at_every_level(name, form, program, tmp_path, record_property):
    model, shapes = network(name, form)
    feeds = sample_inputs(MODELS[name](size=SIZES[name]))
    models = dict(contexts(model, shapes, tmp_path))
    assert models, "no level has a cluster"
    record_property("levels", [*models])
    in_c = run_program(program, [*models.values()], feeds, tmp_path)
    for (level, path), said in zip(models.items(), in_c, strict=True):
        right = outputs(python_session(path), feeds)
        assert outputs(session(path), feeds) == right, level
        assert said == b"".join(contents for _, _, contents in right), level


def test_it_is_the_whole_zoo() -> None:
    assert set(SIZES) == set(MODELS)
