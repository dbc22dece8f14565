"""Random models of one operation: every operation with fixed shapes, type and rank."""

from tests.capi.graphs import movement, pointwise, selection, windows
from tests.capi.graphs.drawn import Recipe

RECIPES: list[Recipe] = [
    *pointwise.RECIPES,
    *windows.RECIPES,
    *movement.RECIPES,
    *selection.RECIPES,
]
