"""Normalizations, by the tensor's own mean and by a given one."""

from collections.abc import Mapping

from tests.random_graphs.drawing import Drawing, Unfit
from tests.random_graphs.recipes.recipe import Recipe, axis_of, image, rows


def _batch_norm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2, 5)
    channels = x.shape[1]
    variance = g.constant(g.draw(g.float, (channels,), 0.5, 2.0))
    return g.add(op, x, *(g.weights(channels) for _ in range(3)), variance)


def _group_norm(g: Drawing, op: str) -> object:
    x, _ = image(g)
    channels = x.shape[1]
    groups = g.random.choice([d for d in (1, 2, 3, 4) if channels % d == 0])
    size = groups if g.opset < 21 else channels
    return g.add(op, x, g.weights(size), g.weights(size), num_groups=groups)


def _instance_norm(g: Drawing, op: str) -> object:
    x, _ = image(g)
    return g.add(op, x, g.weights(x.shape[1]), g.weights(x.shape[1]))


def _layer_norm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 5)
    axis = g.random.randrange(x.rank)
    bias = [g.weights(*x.shape[axis:])] if op == "LayerNormalization" and g.chance(0.6) else []
    return g.add(op, x, g.weights(*x.shape[axis:]), *bias, axis=axis)


def _mvn(g: Drawing, op: str) -> object:
    x = g.some(g.float, 4, 4)
    axes = g.random.choice(((0, 2, 3), (1, 2, 3), (2, 3)))
    if all(x.shape[axis] == 1 for axis in axes):
        raise Unfit  # the mean of squares less the square of the mean may round to less than 0
    return g.add(op, x, axes=axes)


def _lp_norm(g: Drawing, op: str) -> object:
    x = g.new(g.float, g.shape(1), 0.5, 2.0)
    return g.add(op, x, axis=axis_of(g, x), p=g.random.choice((1, 2)))


def _lrn(g: Drawing, op: str) -> object:
    x = g.some(g.float, 4, 4)
    return g.add(op, x, size=g.random.choice((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)


RECIPES: Mapping[str, Recipe] = {
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    **rows("LayerNormalization", "RMSNormalization", recipe=_layer_norm),
    "MeanVarianceNormalization": _mvn,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
}
