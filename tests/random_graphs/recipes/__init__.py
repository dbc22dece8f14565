"""Recipes for random nodes of each operator: inputs, attributes and their ranges."""

from collections.abc import Mapping

from tests.random_graphs.recipes import (
    axes,
    constants,
    control_flow,
    images,
    indexing,
    movement,
    normalization,
    pointwise,
    products,
)
from tests.random_graphs.recipes.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    **pointwise.RECIPES,
    **axes.RECIPES,
    **images.RECIPES,
    **products.RECIPES,
    **normalization.RECIPES,
    **movement.RECIPES,
    **indexing.RECIPES,
    **constants.RECIPES,
    **control_flow.RECIPES,
}
CONTRIBUTED: Mapping[str, Recipe] = pointwise.CONTRIBUTED
"""Of com.microsoft."""
