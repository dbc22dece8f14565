"""Models of one node with attributes and sizes at and past every limit, drawn by a seed."""

from __future__ import annotations

import random

from tests.random_graphs.limits import images, tensors
from tests.random_graphs.limits.drawing import Draw

RECIPES = {**images.RECIPES, **tensors.RECIPES}
_OFTEN = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "RoiAlign", "Resize")
_WEIGHTS = [4 if name in (*_OFTEN, "big window") else 1 for name in RECIPES]


def draw(seed: int) -> Draw:
    """The node of a seed, always the same."""
    chosen = random.Random(-seed - 1).choices(list(RECIPES), _WEIGHTS)[0]
    drawn = Draw(seed, chosen)
    RECIPES[chosen](drawn)
    return drawn
