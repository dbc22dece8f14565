"""Sums of products of matrices: dense layers, and recurrent ones."""

from collections.abc import Mapping

from tests.random_graphs.drawing import Drawing
from tests.random_graphs.recipes.recipe import Recipe, rows


def _gemm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2, 2)
    turned = g.chance(0.3)
    inner, rows = x.shape if turned else x.shape[::-1]
    units = g.random.choice((1, 2, 4))
    b_turned = g.chance(0.5)
    w = g.weights(units, inner) if b_turned else g.weights(inner, units)
    shape = g.random.choice(((units,), (1, units), (rows, units), (rows, 1), (1,), None))
    if shape is None and g.opset < 11:
        shape = (units,)
    given = {"alpha": g.random.choice((None, 0.5)), "beta": g.random.choice((None, 2.0))}
    c = None if shape is None else g.weights(*shape)
    return g.add(op, x, w, c, transA=int(turned), transB=int(b_turned), **given)


def _matmul(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 5)
    columns = [g.random.choice((1, 2, 3))] if g.chance(0.85) else []
    outer = x.shape[:-2] if g.chance(0.6) and columns else ()
    outer = tuple(1 if g.chance(0.2) else d for d in outer)
    return g.add(op, x, g.weights(*outer, x.shape[-1], *columns))


def _einsum(g: Drawing, op: str) -> object:
    equation, a, b = g.random.choice(
        (
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
            ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
            ("ij,ij->j", (2, 3), (2, 3)),
        )
    )
    return g.add(op, g.like(g.float, a), g.like(g.float, b), equation=equation)


def _recurrent(g: Drawing, op: str) -> object:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction = g.random.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = (g.random.randint(1, 3) for _ in range(4))
    x = g.like(g.float, (steps, batch, size))
    w, r = g.weights(ways, gates * hidden, size), g.weights(ways, gates * hidden, hidden)
    bias = g.weights(ways, 2 * gates * hidden) if g.chance(0.6) else None
    state = g.weights(ways, batch, hidden) if g.chance(0.4) else None
    outputs = g.random.choice((1, 2, 3) if op == "LSTM" else (1, 2))
    reset = {"linear_before_reset": g.random.choice((0, 1))} if op == "GRU" else {}
    given = {"direction": direction, "hidden_size": hidden, **reset}
    return g.add(op, x, w, r, bias, None, state, outputs=outputs, **given)


RECIPES: Mapping[str, Recipe] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    **rows("LSTM", "GRU", "RNN", recipe=_recurrent),
    "Einsum": _einsum,
}
