"""Numbers of one tensor or of several, place by place."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from onnx import helper

from tests.random_graphs.drawing import Drawing, Known
from tests.random_graphs.recipes.recipe import BOOL, INT32, INT64, Recipe, rows


def _unary(g: Drawing, op: str, *, exact: bool = False, **drawn: tuple[float, float]) -> object:
    """Any tensor; `drawn`: attributes between two numbers, sometimes left out."""
    given = {k: g.random.uniform(*ends) for k, ends in drawn.items() if g.chance(0.7)}
    return g.add(op, g.some(g.type_of(op)), exact=exact, **given)


def _steps(g: Drawing, op: str, **drawn: tuple[float, float]) -> object:
    """A function that jumps: of numbers on which all agree."""
    given = {k: g.random.uniform(*ends) for k, ends in drawn.items() if g.chance(0.7)}
    return g.add(op, g.some(g.type_of(op), exact=True), exact=True, **given)


def _within(g: Drawing, op: str, low: float, high: float) -> object:
    """A function of numbers between the two only."""
    return g.add(op, g.new(g.float, g.shape(), low, high))


def _binary(g: Drawing, op: str, *, steps: bool = False, exact: bool = True) -> object:
    x = g.some(g.type_of(op), exact=steps)
    return g.add(op, *_either_way(g, x, g.broadcast(x, exact=steps)), exact=exact)


def _either_way(g: Drawing, x: Known, y: Known) -> tuple[Known, Known]:
    return (y, x) if g.chance(0.3) else (x, y)


def _divided(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((INT32, g.float)) if op == "Mod" else g.type_of(op), exact=True)
    divisor = g.new(x.dtype, x.shape[g.random.randint(0, x.rank) :], 0.5, 2.0)
    floats = {"fmod": 1} if op == "Mod" and x.dtype == g.float else {}
    return g.add(op, x, divisor, **floats)


def _pow(g: Drawing, op: str) -> object:
    exponent = np.asarray(g.random.choice((0.5, 1, 2, 3, -1)))
    to = helper.tensor_dtype_to_np_dtype(g.float)
    return g.add(op, g.new(g.float, g.shape(), 0.25, 2.0), g.constant(exponent.astype(to)))


def _several(g: Drawing, op: str) -> object:
    x = g.some(g.float)
    return g.add(
        op, x, *(g.broadcast(x) for _ in range(g.random.randint(0, 2))), exact=op != "Mean"
    )


def _where(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)) if g.opset >= 9 else g.float)
    y = g.broadcast(x)
    where = [1 if g.chance(0.3) else d for d in x.shape]
    return g.add(op, g.like(BOOL, where), *_either_way(g, x, y), exact=True)


def _cast(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32, INT64, BOOL)), exact=True)
    to = g.random.choice((g.float, INT32, INT64, BOOL))
    if op == "CastLike":
        return g.add(op, x, g.like(to, (2,)), exact=True)
    return g.add(op, x, to=to, exact=True)


def _clip(g: Drawing, op: str) -> object:
    low, high = g.random.choice(((0.0, 6.0), (-1.0, 1.0), (-0.5, 0.75), (None, 1.0), (0.0, None)))
    x = g.some()
    if g.opset < 11:
        return g.add(op, x, min=low, max=high, exact=True)
    to = helper.tensor_dtype_to_np_dtype(g.float)
    ends = [None if e is None else g.constant(np.asarray(e, to)) for e in (low, high)]
    return g.add(op, x, *ends, exact=True)


def _prelu(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1)
    sizes = tuple(1 if g.chance(0.4) else d for d in x.shape)[g.random.randrange(x.rank) :]
    return g.add(op, x, g.weights(*sizes), exact=True)


def _contributed(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1)
    given = [g.weights(x.shape[-1])] if op == "BiasGelu" else []
    return g.add(op, x, *given, domain="com.microsoft")


_ALPHA = {"alpha": (0.1, 1.5)}
RECIPES: Mapping[str, Recipe] = {
    **rows("Abs", "Neg", "Relu", recipe=partial(_unary, exact=True)),
    **rows("Atan", "Asinh", "Cos", "Erf", "Exp", "Gelu", "HardSwish", recipe=_unary),
    **rows("Mish", "Sigmoid", "Sin", "Softplus", "Softsign", "Swish", "Tanh", recipe=_unary),
    **rows("Cosh", "Sinh", "Selu", recipe=_unary),
    **rows("Celu", "Elu", "LeakyRelu", recipe=partial(_unary, **_ALPHA)),
    "HardSigmoid": partial(_unary, alpha=(0.1, 0.5), beta=(0.2, 0.6)),
    "ThresholdedRelu": partial(_steps, **_ALPHA),
    "Shrink": partial(_steps, lambd=(0.2, 1.0), bias=(-0.5, 0.5)),
    **rows("Ceil", "Floor", "Round", "Sign", "IsNaN", "IsInf", "Not", recipe=_steps),
    **rows("Acos", "Asin", "Atanh", recipe=partial(_within, low=-0.9, high=0.9)),
    "Acosh": partial(_within, low=1.1, high=3.0),
    **rows("Log", "Sqrt", "Reciprocal", recipe=partial(_within, low=0.25, high=3.0)),
    **rows("Add", "Sub", "Mul", "And", "Or", "Xor", recipe=_binary),
    **rows("Equal", "Greater", "GreaterOrEqual", recipe=partial(_binary, steps=True)),
    **rows("Less", "LessOrEqual", recipe=partial(_binary, steps=True)),
    **rows("Div", "Mod", recipe=_divided),
    "Pow": _pow,
    **rows("Max", "Min", "Mean", "Sum", recipe=_several),
    "Where": _where,
    **rows("Cast", "CastLike", recipe=_cast),
    "Clip": _clip,
    "PRelu": _prelu,
}
CONTRIBUTED: Mapping[str, Recipe] = {
    **rows("BiasGelu", "FastGelu", "Gelu", "QuickGelu", recipe=_contributed),
}
