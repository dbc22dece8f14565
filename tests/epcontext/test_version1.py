"""Containers of format version 1 are still read; malformed ones are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ep_nnapi.epcontext.container import pack, unpack
from ep_nnapi.epcontext.version1 import PRELUDE, crossing_from_json, model_from_json, read_header
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.validate import validate
from tests.epcontext import version1
from tests.epcontext.clusters import branching, lowered, quantized_digits
from tests.fuzz.forging import forged
from tests.preparation.damage import damaged


@pytest.mark.parametrize("make", [lowered, quantized_digits, branching])
def test_it_is_the_same_cluster_as_in_the_current_format(make: Callable[..., Any]) -> None:
    whole = make()
    old = unpack(version1.pack(whole), None, 8)
    new = unpack(pack(whole, model_has_checksum=True).with_embedded_weights(), None, 8)
    assert old.lowered.model == new.lowered.model
    assert old.lowered.border == new.lowered.border
    assert (old.feature_level, old.size, old.file) == (new.feature_level, new.size, new.file)
    assert old.model_has_checksum


def test_a_higher_level_is_refused() -> None:
    data = version1.pack(quantized_digits())
    needed = unpack(data, None, 8).feature_level
    with pytest.raises(ModelError, match=f"needs feature level {needed}, the runtime offers"):
        unpack(data, None, needed - 1)


@pytest.mark.parametrize("seed", [3])
def test_damaged_contexts_are_refused(seed: int) -> None:
    data, rng = version1.pack(lowered()), random.Random(seed)
    for _ in range(300):
        with pytest.raises(ModelError) as refused:
            unpack(damaged(data, rng)[1], None, 8)
        assert "\n" not in str(refused.value)


def refusal(data: bytes) -> str | None:
    """Reason for which a context is refused; one that is not is a legal model."""
    try:
        found = unpack(data, None, 8)
    except ModelError as error:
        return str(error)
    validate(found.lowered.model, 8)
    return None


@pytest.mark.parametrize(
    ("count", "seed"), [(300, 29), pytest.param(5_000, 31, marks=pytest.mark.long)]
)
def test_forged_contexts_are_refused_or_legal(count: int, seed: int) -> None:
    """Checksums are no signatures: whoever writes a header can write its checksum, too."""
    rng = random.Random(seed)
    header, weights = read_header(version1.pack(lowered()))
    for _ in range(count):
        said = refusal(version1.with_checksum(json.dumps(forged(header, rng)).encode(), weights))
        assert said is None or "\n" not in said


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "text",
    [DEEP, b'{"model":' + DEEP + b"}", b"{", b"\xff", b"[]", b"3", b"1" * 9999],
    ids=["deep", "deep inside", "cut", "no text", "a list", "a number", "a long number"],
)
def test_headers_that_are_no_header_are_refused(text: bytes) -> None:
    said = refusal(version1.with_checksum(text))
    assert said is not None
    assert said.startswith("the context is malformed (")
    assert "\n" not in said


def test_the_prelude_has_52_bytes() -> None:
    assert PRELUDE.size == 52


def packed() -> tuple[dict[str, Any], np.ndarray]:
    """A model as JSON text has it, and its weights."""
    header, weights = version1.header_of(lowered())
    return header["model"], np.frombuffer(weights, np.uint8)


def constant(data: dict[str, Any]) -> list[Any]:
    return next(o for o in data["operands"] if isinstance(o[5], list))


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda d: d.pop("inputs"), KeyError),
        (lambda d: d["operands"][0].__setitem__(0, "TENSOR_FLOAT"), KeyError),
        (lambda d: d["operands"][0].__setitem__(1, [1.5]), TypeError),
        (lambda d: d["operations"][0].__setitem__(0, "SUM"), KeyError),
        (lambda d: constant(d).__setitem__(5, [-1, 4]), ValueError),
        (lambda d: constant(d).__setitem__(5, [0, 1 << 40]), ValueError),
        (lambda d: constant(d).__setitem__(5, "present"), TypeError),
    ],
)
def test_malformed_models_are_refused(
    spoil: Callable[[dict[str, Any]], object], error: type[Exception]
) -> None:
    data, weights = packed()
    spoil(data)
    with pytest.raises(error):
        model_from_json(data, weights)


@pytest.mark.parametrize("kind", ["O", 5, None])
def test_element_types_without_plain_bytes_are_refused(kind: object) -> None:
    """Objects of Python would be read from the file's bytes."""
    data = version1.crossing_to_json(lowered().border.inputs[0])
    with pytest.raises(TypeError, match="is no element type"):
        crossing_from_json([*data[:-1], kind])
