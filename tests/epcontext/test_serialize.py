"""Models and borders as JSON and back; malformed data is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.epcontext.serialize import (
    ALIGNMENT,
    ConstantPool,
    check_border,
    crossing_from_json,
    crossing_to_json,
    model_from_json,
    model_to_json,
)
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from tests.provider.test_planner import SHAPE, model

SUM = model("Add x w -> a", "Mul a v -> b", "Tanh b -> y", constants="w v")


def lowered() -> Lowered:
    (cluster,) = partitioned(SUM).clusters
    assert isinstance(cluster, CompiledCluster)
    return cluster.lowered


def packed() -> tuple[dict[str, Any], np.ndarray]:
    """A model as JSON text has it, and its weights."""
    pool = ConstantPool()
    data = json.loads(json.dumps(model_to_json(lowered().model, pool)))
    blob = b"".join(a.tobytes() + b"\0" * (-a.size % ALIGNMENT) for a in pool.arrays)
    assert pool.size == len(blob)
    return data, np.frombuffer(blob, np.uint8)


def test_a_model_comes_back() -> None:
    data, weights = packed()
    again = model_to_json(model_from_json(data, weights), ConstantPool())
    assert json.loads(json.dumps(again)) == data


def test_constants_are_views_of_the_weights() -> None:
    data, weights = packed()
    constants = [o.value.bytes for o in model_from_json(data, weights).operands if o.value]
    assert any(np.shares_memory(c, weights) for c in constants)


def test_a_constant_is_pooled_once_and_aligned() -> None:
    pool, first, second = ConstantPool(), np.zeros(3, np.uint8), np.ones(ALIGNMENT, np.uint8)
    assert [pool.add(a) for a in (first, second, first)] == [(0, 3), (ALIGNMENT, 64), (0, 3)]
    assert (len(pool.arrays), pool.size) == (2, 2 * ALIGNMENT)


def test_a_border_comes_back() -> None:
    border = lowered().border
    for crossing in (*border.inputs, *border.outputs):
        data = json.loads(json.dumps(crossing_to_json(crossing)))
        assert crossing_from_json(data) == crossing
        assert crossing.shape == SHAPE


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
    data = crossing_to_json(lowered().border.inputs[0])
    with pytest.raises(TypeError, match="is no element type"):
        crossing_from_json([*data[:-1], kind])


@pytest.mark.parametrize(
    "change", [{"operand": 1}, {"shape": (7,)}, {"perm": (0, 0)}, {"nnapi_dtype": np.dtype("u1")}]
)
def test_a_border_that_does_not_fit_is_refused(change: dict[str, object]) -> None:
    whole = lowered()
    check_border(whole.border, whole.model)
    (first,) = whole.border.inputs
    with pytest.raises(ValueError, match="does not fit"):
        check_border(replace(whole.border, inputs=(replace(first, **change),)), whole.model)
