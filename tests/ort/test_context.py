"""Models compiled by ONNX Runtime itself: ModelCompiler and the options ep.context_*."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import _pybind_state as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import ep_nnapi
from ep_nnapi.epcontext.container import unpack
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.ort.context import ContextOptions, context_options
from ep_nnapi.sessions.cpu import session_of
from tests.ort.models import abs_add

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits.onnx"
IMAGE = {"image": np.load(ROOT / "models" / "digits" / "samples.npz")["images"][0][None]}
SCORES = session_of(DIGITS.read_bytes()).run(None, IMAGE)[0]
TOLERANCE = 1e-5  # float32 sums, added in different orders


def options(entries: Mapping[str, str] = {}, **given: object) -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    for name, value in entries.items():
        made.add_session_config_entry(name, value)
    ep_nnapi.append_execution_provider(made, **given)
    return made


def to_file(compiler: onnxruntime.ModelCompiler, path: Path) -> None:
    compiler.compile_to_file(str(path))


def to_bytes(compiler: onnxruntime.ModelCompiler, path: Path) -> None:
    path.write_bytes(compiler.compile_to_bytes())


def to_stream(compiler: onnxruntime.ModelCompiler, path: Path) -> None:
    with path.open("wb") as stream:
        compiler.compile_to_stream(lambda part: stream.write(bytes(part)))


def scores_of(model: Path, **given: object) -> np.ndarray:
    return onnxruntime.InferenceSession(str(model), options(**given)).run(None, IMAGE)[0]


def op_types(model: Path) -> list[str]:
    return [n.op_type for n in onnx.load(str(model), load_external_data=False).graph.node]


@pytest.mark.parametrize("source", [str(DIGITS), DIGITS.read_bytes()], ids=["file", "bytes"])
@pytest.mark.parametrize(
    ("write", "embed", "external"),
    [
        (to_file, True, None),
        (to_file, True, "initializers.bin"),
        (to_file, False, None),
        (to_file, False, "initializers.bin"),
        (to_bytes, True, None),
        (to_stream, True, None),
    ],
)
def test_round_trip(source, write, embed, external, tmp_path):
    """The MatMul in the middle stays with the CPU provider; its weight may be external."""
    compiler = onnxruntime.ModelCompiler(
        options(exclude="MatMul"),
        source,
        embed_compiled_data_into_model=embed,
        external_initializers_file_path=external,
        external_initializers_size_threshold=64,
    )
    write(compiler, tmp_path / "m.onnx")
    assert op_types(tmp_path / "m.onnx") == ["EPContext", "Reshape", "MatMul", "EPContext"]
    files = {p.suffix for p in tmp_path.iterdir()} - {".onnx"}
    assert files == ({".weights"} if not embed else set()) | ({".bin"} if external else set())
    np.testing.assert_allclose(scores_of(tmp_path / "m.onnx"), SCORES, rtol=TOLERANCE)


@pytest.mark.parametrize("write", [to_bytes, to_stream])
def test_weights_outside_of_a_model_without_a_path_are_refused(write, tmp_path):
    compiler = onnxruntime.ModelCompiler(options(), str(DIGITS))
    with pytest.raises(Fail, match=r"embed_mode is 0, but the compiled model has no path next to"):
        write(compiler, tmp_path / "m.onnx")


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_session_writes_a_compiled_model_beside_its_own(embed: str, tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(DIGITS.read_bytes())
    entries = {"ep.context_enable": "1", "ep.context_embed_mode": embed}
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options(entries))
    assert op_types(tmp_path / "m_ctx.onnx") == ["EPContext"]
    np.testing.assert_allclose(scores_of(tmp_path / "m_ctx.onnx"), SCORES, rtol=TOLERANCE)


def contexts(model: Path) -> list[object]:
    """The NNAPI models in the EPContext nodes of a model file."""
    found = []
    for node in onnx.load(str(model)).graph.node:
        if node.op_type == "EPContext":
            (data,) = [a.s for a in node.attribute if a.name == "ep_cache_context"]
            found.append(unpack(data, model.parent, 8).lowered.model)
    return found


@pytest.mark.parametrize("embed", [True, False])
def test_the_contexts_are_those_of_prepare(embed: bool, tmp_path: Path):
    """From the same optimized graph, which is the one that prepare compiles."""
    ep_nnapi.prepare(DIGITS, tmp_path / "out", format="context", embed=embed)
    (prepared,) = (tmp_path / "out").rglob("*.onnx")
    compiler = onnxruntime.ModelCompiler(
        options(),
        str(DIGITS),
        embed_compiled_data_into_model=embed,
        graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    )
    to_file(compiler, tmp_path / "m.onnx")
    (ours,), (theirs,) = contexts(prepared), contexts(tmp_path / "m.onnx")
    assert [op.spec.name for op in ours.operations] == [op.spec.name for op in theirs.operations]
    np.testing.assert_array_equal(scores_of(prepared), scores_of(tmp_path / "m.onnx"))


def test_a_damaged_context_is_told(tmp_path: Path):
    to_file(onnxruntime.ModelCompiler(options(), str(DIGITS), True), tmp_path / "m.onnx")
    model = onnx.load(str(tmp_path / "m.onnx"))
    (context,) = [a for a in model.graph.node[0].attribute if a.name == "ep_cache_context"]
    context.s = context.s[:200] + bytes([context.s[200] ^ 1]) + context.s[201:]
    with pytest.raises(Fail, match="is corrupt"):
        onnxruntime.InferenceSession(model.SerializeToString(), options())


def test_symbolic_shapes_stay_with_their_nodes(tmp_path: Path):
    compiler = onnxruntime.ModelCompiler(options(), abs_add(("n", 3)), True)
    to_file(compiler, tmp_path / "m.onnx")
    assert op_types(tmp_path / "m.onnx") == ["Abs", "Add"]


@pytest.mark.parametrize(("level", "answer"), [(8, "OPTIMAL"), (4, "PREFER_RECOMPILATION")])
def test_onnxruntime_tells_the_compatibility(level: int, answer: str, tmp_path: Path):
    compiler = onnxruntime.ModelCompiler(options(feature_level=level), str(DIGITS), True)
    to_file(compiler, tmp_path / "m.onnx")
    metadata = {e.key: e.value for e in onnx.load(str(tmp_path / "m.onnx")).metadata_props}
    info = metadata[f"ep_compatibility_info.{EP_NAME}"]
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == EP_NAME]
    assert ort.get_model_compatibility_for_ep_devices(devices, info).name.endswith(answer)


def test_prepared_models_have_the_information_too(tmp_path: Path):
    ep_nnapi.prepare(DIGITS, tmp_path, format="context", feature_level=8)
    (prepared,) = tmp_path.rglob("*.onnx")
    metadata = {e.key: e.value for e in onnx.load(str(prepared)).metadata_props}
    info = metadata[f"ep_compatibility_info.{EP_NAME}"]
    assert info.endswith("level=8 needed=1 device=nnapi-reference")


def test_options_of_a_session():
    assert context_options({"ep.context_file_path": "x"}) is None
    entries = {"ep.context_enable": "1", "ep.context_file_path": "a/b.onnx"}
    assert context_options(entries).weights_beside("") == Path("a/b.onnx")
    assert context_options({**entries, "ep.context_embed_mode": "1"}).weights_beside("m") is None


def test_bytes_of_a_compiler_have_no_place_beside_the_source():
    """ONNX Runtime 1.25 and newer: only ModelCompiler says if models are compiled."""
    entries = {"ep.context_enable": "1", "session.disable_model_compile": "0"}
    with pytest.raises(OptionError, match="the compiled model has no path"):
        context_options(entries).weights_beside("a/m.onnx")


def test_without_any_path_weights_need_to_be_embedded():
    assert ContextOptions("", False).weights_beside("a/m.onnx") == Path("a/m_ctx.onnx")
    with pytest.raises(OptionError, match=r"set ep\.context_file_path, or ep\.context_embed_mode"):
        ContextOptions("", False).weights_beside("")


@pytest.mark.parametrize(
    "name", ["mode", "ep_context_nodes"], ids=lambda name: f"ep.enable_weightless_{name}"
)
def test_contexts_without_weights_are_refused(name: str, tmp_path: Path):
    """By an onnxruntime that knows the option, or else here; a source model is not needed."""
    entries = {f"ep.enable_weightless_{name}": "1"}
    refused = rf"{next(iter(entries))}(=1\) but EP '{EP_NAME}'| is 1, but this provider's contexts)"
    with pytest.raises(Exception, match=refused):
        to_file(onnxruntime.ModelCompiler(options(entries), str(DIGITS)), tmp_path / "a.onnx")
    to_file(onnxruntime.ModelCompiler(options(), str(DIGITS)), tmp_path / "b.onnx")
    entries = {"ep.context_source_model_path": "/none.onnx"}
    session = onnxruntime.InferenceSession(str(tmp_path / "b.onnx"), options(entries))
    np.testing.assert_allclose(session.run(None, IMAGE)[0], SCORES, atol=TOLERANCE)
