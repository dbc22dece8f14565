"""Damaged, forged and foreign contexts: always a clear error."""

import hashlib
import json
import os
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.epcontext.container import (
    ContainerContent,
    WeightsLocation,
    check_programs,
    pack,
    read_weights,
    unpack,
)
from ep_nnapi.epcontext.contexts import companion_name, context_attributes, contexts_of
from ep_nnapi.epcontext.layout import (
    ALIGNMENT,
    EP_SOURCE,
    FORMAT_VERSION,
    MOST_INFLATED,
    deflated,
    is_own,
)
from ep_nnapi.epcontext.pool import ConstantPool
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import parse
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from tests.epcontext.forging import branching, forged, lowered, quantized_digits, several
from tests.onnx_graph import graph_of
from tests.preparation.damage import damaged
from tests.preparation.test_batch import tiny
from tests.provider.test_planner import CHAIN

LEVEL = 8


def context(tmp_path: Path, **options: object) -> bytes:
    """The embedded context of a small model."""
    provider = partitioned(tiny(tmp_path / "a.onnx"), parse(options))
    (cluster,) = provider.clusters
    assert isinstance(cluster, CompiledCluster)
    return pack(cluster.lowered).with_embedded_weights()


def test_damaged_contexts_are_refused(tmp_path: Path) -> None:
    """The reader is C's: tests/native/test_damage.py gives it a hundred thousand."""
    data, rng = context(tmp_path), random.Random(3)
    for _ in range(300):
        _, changed = damaged(data, rng)
        with pytest.raises(ModelError) as refused:
            unpack(changed, None, LEVEL)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("count", "seed"), [(100, 7), pytest.param(5_000, 11, marks=pytest.mark.long)]
)
def test_damaged_weights_are_refused(count: int, seed: int, tmp_path: Path) -> None:
    """Of a file beside the model, whatever is done to it."""
    path, rng = prepared(tmp_path, format="context"), random.Random(seed)
    (weights,) = path.parent.glob("*.weights")
    (node,) = onnx.load(path).graph.node
    data = next(a.s for a in node.attribute if a.name == "ep_cache_context")
    whole = weights.read_bytes()
    assert unpack(data, path.parent, LEVEL)
    for _ in range(count):
        weights.write_bytes(damaged(whole, rng)[1])
        with pytest.raises(ModelError, match=r"truncated|corrupt"):
            unpack(data, path.parent, LEVEL)


def refusal(data: bytes) -> str | None:
    """Reason for which a context or its programs are refused; None: they are legal models."""
    try:
        found = unpack(data, None, LEVEL)
        check_programs(found.alternatives)
    except ModelError as error:
        return str(error)
    return None


@pytest.mark.parametrize("make", [quantized_digits, branching, several])
def test_forged_contexts_are_refused_or_legal(make):
    """Checksums are no signatures: whoever writes a header can write its checksum, too."""
    made = make()
    given = made if isinstance(made, tuple) else (made,)
    data, rng = pack(*given).with_embedded_weights(), random.Random(29)
    ends = [refusal(forged(data, rng)) for _ in range(500)]
    assert not any("\n" in said for said in ends if said)
    assert 0 < ends.count(None) < 250  # numbers without effect: an origin, a scale


@pytest.mark.parametrize(
    ("version", "advice"),
    [(v, "prepare") for v in range(FORMAT_VERSION)]
    + [(v, "upgrade ep-nnapi or prepare") for v in (FORMAT_VERSION + 1, 2**32 - 1)],
)
def test_another_format_is_refused(version: int, advice: str, tmp_path: Path) -> None:
    data = bytearray(context(tmp_path))
    struct.pack_into("<I", data, 8, version)
    said = f"has format {version}, this version reads {FORMAT_VERSION}; {advice} the model again"
    with pytest.raises(ModelError, match=said):
        unpack(bytes(data), None, LEVEL)


def test_a_higher_level_is_refused(tmp_path: Path) -> None:
    data = context(tmp_path)
    needed = unpack(data, None, LEVEL).feature_level
    unpack(data, None, needed)
    with pytest.raises(ModelError, match=f"needs feature level {needed}, the runtime offers"):
        unpack(data, None, needed - 1)


@pytest.mark.parametrize("name", ["../w", "/etc/passwd", "sub/../../w", ".."])
def test_weights_outside_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    (cluster,) = partitioned(tiny(tmp_path / "in" / "a.onnx")).clusters
    assert isinstance(cluster, CompiledCluster)
    one = pack(cluster.lowered)
    location = WeightsLocation(name, 0, one.size, one.size, bytes(32))
    (tmp_path / "w").write_bytes(bytes(one.size))
    with pytest.raises(ModelError, match="outside of the model's folder"):
        unpack(one.with_external_weights(location), tmp_path / "in", LEVEL)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (cluster,) = partitioned(tiny(tmp_path / "in" / "a.onnx")).clusters
    assert isinstance(cluster, CompiledCluster)
    one = pack(cluster.lowered)
    location = WeightsLocation("w", 0, one.size, one.size, bytes(32))
    (tmp_path / "w").write_bytes(bytes(one.size))
    (tmp_path / "in" / "w").symlink_to(tmp_path / "w")
    with pytest.raises(ModelError, match="outside of the model's folder"):
        unpack(one.with_external_weights(location), tmp_path / "in", LEVEL)


def prepared(tmp_path: Path, **options: object) -> Path:
    done = ep_nnapi.prepare(tiny(tmp_path / "a.onnx"), tmp_path / "out", verify=False, **options)
    return tmp_path / "out" / done.models[0].output


def test_a_session_says_why_a_context_cannot_be_used(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    (weights,) = path.parent.glob("*.weights")
    whole = weights.read_bytes()
    spoilt: dict[str, Callable[[], object]] = {
        "another size": lambda: weights.write_bytes(whole + b"\0" * 64),
        "corrupt": lambda: weights.write_bytes(bytes([whole[0] ^ 1]) + whole[1:]),
        "truncated": lambda: weights.write_bytes(whole[:-64]),
        "no such file": weights.unlink,
    }
    for says, spoil in spoilt.items():
        spoil()
        with pytest.raises(ModelError, match=says):
            ep_nnapi.check(path)
        weights.write_bytes(whole)
    assert ep_nnapi.check(path).clusters


def test_whether_the_model_has_a_checksum_is_in_its_context(tmp_path: Path) -> None:
    """Only where the writer of the model's file put one into it: ONNX Runtime itself does not."""
    path = prepared(tmp_path, format="context")
    assert content(path).model_has_checksum
    proto = onnx.load(path)
    provider = partitioned(tiny(tmp_path / "b.onnx"))
    (cluster,) = provider.clusters
    assert isinstance(cluster, CompiledCluster)
    (attribute,) = (a for a in proto.graph.node[0].attribute if a.name == "ep_cache_context")
    attribute.s = pack(cluster.lowered).with_embedded_weights()
    del proto.metadata_props[:]
    onnx.save(proto, path)
    assert not content(path).model_has_checksum
    assert ep_nnapi.check(path).clusters


def content(path: Path) -> ContainerContent:
    """Of the one context in a model."""
    (node,) = onnx.load(path).graph.node
    data = next(a.s for a in node.attribute if a.name == "ep_cache_context")
    return unpack(data, path.parent, LEVEL)


# Contexts of a model's clusters: embedded weights, or one file of weights next to the model


def test_embedded_weights_need_no_file(tmp_path: Path):
    (context,) = contexts_of([pack(quantized_digits())], None)
    assert unpack(context, None, 8).file is None


def test_weights_of_all_clusters_go_to_one_file_named_by_its_content(tmp_path: Path):
    packed = [pack(quantized_digits()), pack(lowered())]
    contexts = [*contexts_of(packed, tmp_path / "m.onnx")]
    (weights,) = tmp_path.iterdir()
    loaded = [unpack(context, tmp_path, 8) for context in contexts]
    assert [one.file for one in loaded] == [weights.name] * 2
    assert [one.weights.size for one in loaded] == [one.size for one in packed]
    again = tmp_path / "again"
    again.mkdir()
    assert [*contexts_of(packed, again / "m.onnx")] == contexts


def test_a_companion_has_the_start_of_its_digest_in_its_name():
    digest = sha256(b"").hexdigest()
    assert companion_name(Path("a/m.onnx"), digest, ".data") == "m.e3b0c44298fc1c14.data"


def test_attributes_name_the_provider():
    attributes = context_attributes(b"c", "p", ["a", "b\n"])
    assert attributes["source"] == "NnapiPluginExecutionProvider"
    assert (attributes["ep_cache_context"], attributes["partition_name"]) == (b"c", "p")
    assert json.loads(str(attributes["notes"])) == ["a", "b\n"]


# EPContext nodes of this provider among others

OWN = replace(
    graph_of(CHAIN).nodes[0],
    op_type="EPContext",
    domain="com.microsoft",
    attributes={"source": EP_SOURCE},
)


def test_the_source_is_the_providers_name() -> None:
    assert EP_SOURCE == EP_NAME
    assert is_own(OWN)


@pytest.mark.parametrize(
    "change",
    [
        {"op_type": "Relu"},
        {"domain": ""},
        {"attributes": {"source": "QNNExecutionProvider"}},
        {"attributes": {}},
    ],
)
def test_nodes_of_others(change: dict[str, object]) -> None:
    assert not is_own(replace(OWN, **change))


@pytest.mark.parametrize("data", [b"x", b"abc" * 1000, bytes(range(256)) * 3, bytes(1 << 20)])
def test_bytes_are_deflated_within_limits(data: bytes) -> None:
    """How they come back is C's: tests/native/test_inflate.py."""
    packed = deflated(data)
    assert int.from_bytes(packed[:4], "little") == len(data) <= MOST_INFLATED * len(packed)
    assert zlib.decompress(packed[4:], -zlib.MAX_WBITS) == data


GATES = [np.random.default_rng(i).bytes(2 * ALIGNMENT) for i in range(4)]


def array(*parts: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8)


def test_a_constant_is_pooled_once() -> None:
    pool, first, second = ConstantPool(), np.zeros(3, np.uint8), np.ones(ALIGNMENT, np.uint8)
    assert [pool.add(a) for a in (first, second, first)] == [(0, 3), (ALIGNMENT, 64), (0, 3)]
    assert (len(pool.arrays), pool.size) == (2, 2 * ALIGNMENT)


def test_parts_stand_in_what_they_are_parts_of() -> None:
    """Whichever comes first, as far as it was expected."""
    whole, parts = array(*GATES), [array(gate) for gate in GATES]
    other = array(GATES[0][:-1] + b"\0")
    for given in ([whole, *parts], [*parts, whole]):
        pool = ConstantPool()
        pool.expect([*given, other])
        found = {id(each): pool.add(each) for each in given}
        for number, part in enumerate(parts):
            assert found[id(part)] == (number * 128, 128)
        assert (found[id(whole)], pool.size) == ((0, 512), 512)
        assert pool.add(other)[0] == 512
    assert ConstantPool().add(parts[1]) == (0, 128)


def test_a_part_at_no_multiple_of_the_alignment_stands_alone() -> None:
    pool, whole = ConstantPool(), array(*GATES)
    part = whole[8 : 8 + ALIGNMENT].copy()
    pool.expect([whole, part])
    assert [pool.add(whole), pool.add(part)] == [(0, 512), (512, 64)]


def test_zeros_are_parts_of_zeros() -> None:
    pool, large, small = ConstantPool(), np.zeros(1 << 20, np.uint8), np.zeros(100, np.uint8)
    pool.expect([small, large])
    assert [pool.add(small), pool.add(large)] == [(0, 100), (0, 1 << 20)]


DATA = bytes(range(192))
PART = WeightsLocation("w", 64, 128, 192, hashlib.sha256(DATA[64:]).digest())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").write_bytes(DATA)
    return tmp_path


def test_a_part_of_a_file_is_mapped(folder: Path) -> None:
    weights = read_weights(PART, b"", folder)
    assert isinstance(weights.base, np.memmap)
    assert weights.tobytes() == DATA[64:]


def test_an_unchanged_file_is_checked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_weights(PART, b"", folder)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "sha256", None)
        assert read_weights(PART, b"", folder).tobytes() == DATA[64:]
    (folder / "w").write_bytes(bytes(192))
    os.utime(folder / "w", ns=(0, 0))  # clocks of file systems may be coarse
    with pytest.raises(ModelError, match="weights are corrupt"):
        read_weights(PART, b"", folder)


def test_embedded_weights_are_not_copied() -> None:
    location = WeightsLocation("", 0, 192, 0, hashlib.sha256(DATA).digest())
    weights = read_weights(location, DATA, None)
    assert np.shares_memory(weights, np.frombuffer(DATA, np.uint8))


def test_there_may_be_none(folder: Path) -> None:
    nothing = hashlib.sha256().digest()
    assert read_weights(WeightsLocation("", 0, 0, 0, nothing), b"", None).size == 0
    assert read_weights(WeightsLocation("w", 64, 0, 192, nothing), b"", folder).size == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"offset": 128}, "w is truncated"),
        ({"offset": -64}, "w is truncated"),
        ({"total": 193}, "another size"),
        ({"size": 64}, "weights are corrupt"),
        ({"file": "v"}, "v: no such file; it holds the prepared model's weights"),
        ({"file": "../w"}, "outside of the model's folder"),
        ({"file": ".."}, "outside of the model's folder"),
    ],
)
def test_what_is_not_there_is_refused(change: dict[str, object], says: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=says):
        read_weights(replace(PART, **change), b"", folder)


def test_a_model_from_memory_has_no_folder() -> None:
    with pytest.raises(ModelError, match="load the prepared model from its file"):
        read_weights(PART, b"", None)


def test_nothing_follows_a_header_whose_weights_are_elsewhere(folder: Path) -> None:
    with pytest.raises(ModelError, match="data follows its header"):
        read_weights(PART, b"x", folder)


def test_embedded_weights_that_are_cut_are_refused() -> None:
    location = WeightsLocation("", 0, 192, 0, hashlib.sha256(DATA).digest())
    with pytest.raises(ModelError, match="truncated"):
        read_weights(location, DATA[:-1], None)
