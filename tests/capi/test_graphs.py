"""Random models of one operation: all of them are valid, compile and compute.

As Android's random graph test has it, nothing is said about the numbers; shapes must be those
that the model declares.
"""

import random
from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.nnapi.spec import BY_NAME
from tests.capi.client import Library, operand_type, pointer, ref, u32s
from tests.capi.graphs import RECIPES
from tests.capi.graphs.drawn import Draw, Operation, Recipe
from tests.capi.world import World

GRAPHS = 250
"""In the short suite: of any recipe. The long one makes eight of each."""


def declared(w: World, recipe: Recipe, made: Operation, inputs: list[int]) -> int:
    """The finished model, with the named inputs; the others are constants."""
    model, count = w.make("Model_create"), len(made.inputs)
    for each in (*made.inputs, *made.outputs):
        described = operand_type(each.code, each.dims, each.scale, each.zero_point)
        w.check("Model_addOperand", model, ref(described))
    outputs = [count + i for i in range(len(made.outputs))]
    ends = count, u32s(range(count)), len(outputs), u32s(outputs)
    w.check("Model_addOperation", model, BY_NAME[recipe.name].code, *ends)
    w.identify(model, inputs, outputs)
    return model


def computed(w: World, recipe: Recipe, made: Operation, d: Draw) -> None:
    """Any inputs are the model's, often none or all; the others are its constants."""
    likely = d.r.choice([0, 0.7, 1])
    arrays = [each.array(d.r) for each in made.inputs]
    free = [i for i, each in enumerate(made.inputs) if not each.constant]
    inputs = [i for i in free if d.chance(likely)]
    model = declared(w, recipe, made, inputs)
    for i in set(range(len(arrays))).difference(inputs):
        w.check("Model_setOperandValue", model, i, pointer(arrays[i]), arrays[i].nbytes)
    w.check("Model_finish", model)
    execution = w.execution(w.ready(model=model, for_device=d.chance()))
    for place, i in enumerate(inputs):
        array = arrays[i]
        w.check("Execution_setInput", execution, place, None, pointer(array), array.nbytes)
    outs = [np.zeros(each.dims, each.code.numpy) for each in made.outputs]
    for place, out in enumerate(outs):
        w.check("Execution_setOutput", execution, place, None, pointer(out), out.nbytes)
    w.check("Execution_compute", execution)


def failures(nn: Library, chosen: list[Recipe], seeds: Callable[[], int]) -> list[str]:
    """The operation of each seed that failed, and its failure."""
    found = []
    for recipe in chosen:
        seed, world = seeds(), World(nn)
        draw = Draw(seed)
        try:
            computed(world, recipe, recipe.make(draw, recipe.code, recipe.rank), draw)
        except AssertionError as error:
            found.append(f"{recipe}, seed {seed}: {error}")
        finally:
            world.close()
    return found


def any_seed() -> int:
    return random.randrange(2**32)


def test_random_operations_compute(nn: Library) -> None:
    assert failures(nn, random.choices(RECIPES, k=GRAPHS), any_seed) == []


@pytest.mark.long
@pytest.mark.parametrize("time", range(8))
def test_every_operation_computes_on_every_type_and_rank(nn: Library, time: int) -> None:
    assert failures(nn, RECIPES, any_seed) == []
