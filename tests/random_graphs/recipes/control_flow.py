"""Graphs inside of nodes."""

from collections.abc import Mapping

from tests.random_graphs.drawing import Drawing
from tests.random_graphs.recipes.recipe import Recipe


def _if(g: Drawing, op: str) -> object:
    then, otherwise = g.random.sample(("Relu", "Neg", "Abs", "Identity", "Sigmoid"), 2)
    return g.either(g.some(g.float), then, otherwise)


RECIPES: Mapping[str, Recipe] = {
    "If": _if,
}
