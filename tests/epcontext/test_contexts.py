"""Contexts of a model's clusters: embedded weights, or one file of weights next to the model."""

from hashlib import sha256
from pathlib import Path

from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.contexts import companion_name, context_attributes, contexts_of
from tests.epcontext.clusters import lowered, quantized_digits


def test_embedded_weights_need_no_file(tmp_path: Path):
    (context,) = contexts_of([pack(quantized_digits())], None)
    assert unpack(context, None, 8).file is None


def test_weights_of_all_clusters_go_to_one_file_named_by_its_content(tmp_path: Path):
    packed = [pack(quantized_digits()), pack(lowered())]
    contexts = [*contexts_of(packed, tmp_path / "m.onnx")]
    (weights,) = tmp_path.iterdir()
    loaded = [unpack(context, tmp_path, 8) for context in contexts]
    assert [one.file for one in loaded] == [weights.name] * 2
    assert [one.size for one in loaded] == [one.size for one in packed]
    again = tmp_path / "again"
    again.mkdir()
    assert [*contexts_of(packed, again / "m.onnx")] == contexts


def test_a_companion_has_the_start_of_its_digest_in_its_name():
    digest = sha256(b"").hexdigest()
    assert companion_name(Path("a/m.onnx"), digest, ".data") == "m.e3b0c44298fc1c14.data"


def test_attributes_name_the_provider():
    attributes = context_attributes(b"c", "p")
    assert attributes["source"] == "NnapiPluginExecutionProvider"
    assert (attributes["ep_cache_context"], attributes["partition_name"]) == (b"c", "p")
