"""Digests of models: equal for equal models, different for each thing that changes a result."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted
from ep_nnapi.nnapi.runtime import CompileOptions, model_digest, with_token
from tests.nnapi.build import BOOL8, F32, I32, NONE, constant, one, operand, tensor

WEIGHTS = np.float32([1, 2, 3])


def added(weights: np.ndarray = WEIGHTS, **named: object) -> Model:
    """x + weights."""
    return one(spec.ADD, [tensor(F32, 3), constant(weights), NONE], [tensor(F32, 3)], **named)


def branched(branch: Model) -> Model:
    """An IF whose both branches are `branch`."""
    x = tensor(F32, 3)
    return one(spec.IF, [tensor(BOOL8, 1), branch, branch, x], [x])


def test_equal_models_have_equal_digests() -> None:
    assert model_digest(added()) == model_digest(added(WEIGHTS.copy()))
    assert len(model_digest(added())) == 32


def test_origins_are_not_part_of_it() -> None:
    model = added()
    (operation,) = model.operations
    named = replace(model, operations=(replace(operation, origin=("Add_1",)),))
    assert model_digest(named) == model_digest(model)


def test_constants_in_views_count_by_their_bytes() -> None:
    whole = np.float32([9, 1, 2, 3])
    assert model_digest(added(whole[1:])) == model_digest(added())


def with_operand(index: int, **changes: object) -> Model:
    model = added()
    operands = list(model.operands)
    operands[index] = replace(operands[index], **changes)
    return replace(model, operands=tuple(operands))


CHANGES: dict[str, Callable[[], Model]] = {
    "one bit of a constant": lambda: added(np.float32([1, 2, np.nextafter(np.float32(3), 4)])),
    "sign of zero": lambda: added(np.float32([1, 2, -0.0])),
    "operation": lambda: replace(
        added(), operations=(replace(added().operations[0], spec=spec.SUB),)
    ),
    "order of inputs": lambda: replace(
        added(), operations=(replace(added().operations[0], inputs=(1, 0, 2)),)
    ),
    "relaxed": lambda: added(relaxed=True),
    "dimensions": lambda: with_operand(0, dimensions=(1, 3)),
    "type": lambda: with_operand(0, type=I32),
    "scale": lambda: with_operand(3, scale=0.5),
    "zero point": lambda: with_operand(3, zero_point=1),
    "scales per channel": lambda: with_operand(
        1, type=spec.Q8C, channels=ChannelQuantization(0, (1.0, 2.0))
    ),
    "other scales per channel": lambda: with_operand(
        1, type=spec.Q8C, channels=ChannelQuantization(0, (1.0, 3.0))
    ),
    "an omitted constant": lambda: with_operand(1, value=Omitted.NO_VALUE),
    "an empty constant": lambda: with_operand(1, value=Data.of(np.zeros(0, np.float32))),
    "an input instead of a constant": lambda: replace(with_operand(1, value=None), inputs=(0, 1)),
    "outputs": lambda: replace(added(), outputs=(3, 0)),
    "a submodel": lambda: branched(added()),
    "another submodel": lambda: branched(added(WEIGHTS + 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_difference_changes_the_digest(name: str) -> None:
    others = {model_digest(made()) for other, made in CHANGES.items() if other != name}
    assert model_digest(CHANGES[name]()) not in {*others, model_digest(added())}


def test_a_submodel_is_the_same_shared_or_copied() -> None:
    shared = branched(added())
    apart = replace(shared, operands=tuple(replace(o) for o in shared.operands))
    apart = replace(apart, operands=(apart.operands[0], operand(added()), *apart.operands[2:]))
    assert model_digest(apart) == model_digest(shared)


def test_a_cache_without_a_token_gets_the_digest() -> None:
    named = with_token(CompileOptions(cache_dir="/cache"), added())
    assert named == CompileOptions(cache_dir="/cache", token=model_digest(added()))


@pytest.mark.parametrize(
    "options",
    [CompileOptions(), CompileOptions(cache_dir="/cache", token=bytes(32))],
    ids=["no cache", "a token of the caller's"],
)
def test_other_options_stay(options: CompileOptions) -> None:
    assert with_token(options, added()) is options
