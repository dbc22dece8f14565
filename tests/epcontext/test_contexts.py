"""Contexts of clusters, the checksum of a model's file, and composites that containers keep."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.epcontext import contexts
from ep_nnapi.epcontext.composites import packed, unpacked
from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.model import Composite, Model
from tests.epcontext.test_container import prepared
from tests.operators.recurrent_layers import layer
from tests.oracle import FL, lowered
from tests.preparation.test_batch import tiny


def test_a_model_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    proto = onnx.load(path)
    proto.doc_string = "changed"
    onnx.save(proto, path)
    with pytest.raises(ModelError, match="corrupt or was changed; prepare the model again"):
        ep_nnapi.check(path)


def test_changed_bytes_are_refused_by_check(tmp_path: Path) -> None:
    """Of the whole model, also of what would run on the CPU; a session is not shown the bytes."""
    path = prepared(tmp_path, format="context", embed=True)
    assert ep_nnapi.check(path.read_bytes()).clusters
    proto = onnx.load(path)
    proto.doc_string = "changed"
    with pytest.raises(ModelError, match="corrupt or was changed; prepare it again"):
        ep_nnapi.check(proto.SerializeToString())


def test_a_file_is_verified_as_it_is_now(tmp_path: Path) -> None:
    path = prepared(tmp_path, format="context")
    contexts.verify_checksum(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelError, match="corrupt or was changed"):
        contexts.verify_checksum(path)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        contexts.verify_checksum(path)


def written(path: Path) -> Path:
    """A model with its checksum."""
    proto = onnx.load(tiny(path))
    contexts.add_placeholder(proto)
    onnx.save(proto, path)
    contexts.write_checksum(path)
    return path


def test_a_written_checksum_is_correct(tmp_path: Path) -> None:
    path = written(tmp_path / "a.onnx")
    contexts.verify_checksum(path)
    contexts.verify_checksum_of_bytes(path.read_bytes())
    (entry,) = (e for e in onnx.load(path).metadata_props if e.key == "ep_nnapi.sha256")
    assert len(entry.value) == 64
    assert set(entry.value) <= set("0123456789abcdef")
    assert entry.value != "0" * 64


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    """Also one of the checksum itself, in every 7th place from the first to the last byte."""
    data = written(tmp_path / "a.onnx").read_bytes()
    for i in {*range(0, len(data), 7), len(data) - 1}:
        changed = data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]
        if b"ep_nnapi.sha256" in changed:  # without the key, bytes have no checksum
            with pytest.raises(ModelError, match="prepare it again"):
                contexts.verify_checksum_of_bytes(changed)


def test_a_file_needs_a_checksum_and_bytes_do_not(tmp_path: Path) -> None:
    """Bytes may be of any model; a prepared file always has one."""
    path = tiny(tmp_path / "a.onnx")
    contexts.verify_checksum_of_bytes(path.read_bytes())
    with pytest.raises(ModelError, match="prepare the model again"):
        contexts.verify_checksum(path)


@pytest.fixture(scope="module")
def gru() -> Lowered:
    return lowered(layer("GRU", linear_before_reset=1), FL[8])


def test_a_container_has_the_composites_of_its_model(gru: Lowered):
    given = gru.model.composites
    read = unpack(pack(gru).with_embedded_weights(), None, 8).lowered.model
    assert read.composites == given
    assert len(given[0].members) > 20
    assert read == gru.model


def test_a_model_without_composites_has_none(gru: Lowered):
    plain = replace(gru, model=replace(gru.model, composites=()))
    data = pack(plain).with_embedded_weights()
    assert b'[["' not in data
    assert unpack(data, None, 8).lowered.model.composites == ()


def rows_of(model: Model) -> tuple[list, np.ndarray]:
    """The JSON, and the weights of the composite's own constants."""
    blocks: list[np.ndarray] = []

    def add(data: np.ndarray) -> tuple[int, int]:
        blocks.append(data)
        return sum(block.size for block in blocks[:-1]), data.size

    rows = json.loads(packed(model.composites, add))
    return rows, np.concatenate(blocks)


def read(rows: object, model: Model, weights: np.ndarray) -> tuple[Composite, ...]:
    return unpacked(json.dumps(rows), model, weights)


INPUTS, OUTPUTS, ATTRIBUTES, MEMBERS, ACTIVATION = range(2, 7)
WRONG = {
    "an operand beyond the model": lambda row: row[INPUTS][0].__setitem__(0, 10**6),
    "a negative operand": lambda row: row[INPUTS][0].__setitem__(0, -1),
    "a truth for an operand": lambda row: row[INPUTS][0].__setitem__(0, True),
    "axes twice": lambda row: row[INPUTS][0].__setitem__(1, [0, 0, 2]),
    "fewer axes": lambda row: row[INPUTS][0].__setitem__(1, [0, 1]),
    "a negative size": lambda row: row[OUTPUTS][0].__setitem__(2, [-1, 2]),
    "a constant beyond the weights": lambda row: row[INPUTS][1][0].update(offset=10**9),
    "a constant that is too short": lambda row: row[INPUTS][1][0].update(size=4),
    "a constant of no type": lambda row: row[INPUTS][1][0].update(type=99),
    "a member beyond the model": lambda row: row[MEMBERS].append(10**6),
    "a member too few": lambda row: row[MEMBERS].pop(3),
    "no output": lambda row: row.__setitem__(OUTPUTS, [None, None]),
    "another's output": lambda row: row[OUTPUTS][0].__setitem__(0, 0),
    "an attribute that is an object": lambda row: row[ATTRIBUTES].update(a={}),
    "attributes that are none": lambda row: row.__setitem__(ATTRIBUTES, 3),
    "an activation that there is not": lambda row: row.__setitem__(ACTIVATION, 9),
    "a field too few": lambda row: row.pop(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_composites_that_do_not_fit_are_left_out(gru: Lowered, wrong: str):
    rows, weights = rows_of(gru.model)
    assert read(rows, gru.model, weights) == gru.model.composites
    WRONG[wrong](rows[0])
    assert read(rows, gru.model, weights) == ()


@pytest.mark.parametrize("text", ["", "[", "{", "3", "[" * 10**5])
def test_other_texts_are_no_composites(gru: Lowered, text: str):
    assert unpacked(text, gru.model, np.zeros(0, np.uint8)) == ()
