"""Large constants of models with submodels: found once each, and replaced where they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.library.constants import is_large, large_constants, with_constants
from ep_nnapi.nnapi.model import Data, Model, Operand
from tests.nnapi.build import BOOL8, F32, NONE, constant, one, tensor


def added(weights: np.ndarray) -> Model:
    """x + weights."""
    x = tensor(F32, weights.size)
    return one(spec.ADD, [x, constant(weights), NONE], [x])


def chosen(*branches: Model) -> Model:
    """IF over two branches."""
    x = branches[0].operands[0]
    models = [Operand(OperandCode.MODEL, value=b) for b in branches]
    return one(spec.IF, [tensor(BOOL8, 1), *models, x], [x])


def floats(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(count, np.float32)


@pytest.mark.parametrize(("size", "large"), [(0, False), (128, False), (129, True), (4096, True)])
def test_nnapi_copies_up_to_128_bytes(size: int, large: bool) -> None:
    assert is_large(Data(np.zeros(size, np.uint8))) is large


def test_those_of_submodels_are_found_and_small_ones_are_not() -> None:
    first, second = added(floats(40)), added(floats(40, seed=1))
    assert large_constants(added(floats(32))) == []
    assert large_constants(first) == [first.operands[1].value]
    found = large_constants(chosen(first, second))
    assert {id(d) for d in found} == {id(m.operands[1].value) for m in (first, second)}


def test_a_shared_submodel_is_searched_once() -> None:
    branch = added(floats(40))
    assert large_constants(chosen(branch, branch)) == [branch.operands[1].value]


def test_replaced_constants_stand_in_an_equal_model() -> None:
    branch = added(floats(40))
    model = chosen(branch, branch)
    old = branch.operands[1].value
    new = Data(old.bytes.copy())
    changed = with_constants(model, {id(old): new})
    assert changed == model
    inner = [o.value for o in changed.operands if isinstance(o.value, Model)]
    assert inner[0] is inner[1]  # still one submodel
    assert inner[0].operands[1].value is new
    assert branch.operands[1].value is old  # the given model is unchanged


def test_constants_that_are_not_named_stay_the_same_objects() -> None:
    model = added(floats(40))
    assert with_constants(model, {}) is model
    changed = with_constants(model, {-1: Data(np.zeros(1, np.uint8))})
    assert changed.operands[1].value is model.operands[1].value
    assert changed == replace(model)
