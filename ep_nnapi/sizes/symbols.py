"""Symbolic dimensions and their values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeGuard

from ep_nnapi.errors import valid_names
from ep_nnapi.graph.value import Dim
from ep_nnapi.nnapi.errors import OptionError, suggestion

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes by tensor name."""

_UNNAMED = "?"
"""What some exporters name every dimension that they know nothing of: equal ones may differ."""


class HasShape(Protocol):
    """Protocol of a tensor with a name and dimensions, None for unknown rank."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """Its dimensions."""


def symbol_values(values: Iterable[HasShape], shapes: Shapes) -> dict[str, int]:
    """The values of the symbolic dimensions when `values` have these shapes.

    Raises OptionError for a shape that contradicts the declared rank or a declared size.
    """
    found: dict[str, int] = {}
    for value in values:
        shape = shapes.get(value.name)
        if shape is None or value.dims is None:
            continue
        if len(shape) != len(value.dims) or not _matches(value.dims, shape):
            declared = ",".join(str(d or "?") for d in value.dims)
            raise OptionError(f"{value.name} is fixed to {list(shape)}; the model has [{declared}]")
        found.update((d, s) for d, s in zip(value.dims, shape, strict=True) if _is_symbol(d))
    return found


def fixed_symbols(inputs: Sequence[HasShape], fixed: Shapes) -> dict[str, int]:
    """The same for a model's inputs; `fixed` may also map a symbolic dimension to one size.

    Raises OptionError if a name is neither an input nor a symbol, or a symbol gets two sizes.
    """
    there, shapes = _symbols_of(inputs), input_shapes(inputs, fixed)
    found = {n: sizes[0] for n, sizes in fixed.items() if n in there.keys() - shapes.keys()}
    for name, sizes in fixed.items():
        if name not in shapes and name not in there:
            among = valid_names(name, (*(v.name for v in inputs), *there))
            raise OptionError(f"fix: {name} is no input or symbolic dimension; known: {among}")
        if name in found and len(sizes) != 1:
            raise OptionError(f"fix: {name} is {list(sizes)}; a symbolic dimension has one size")
    for value in inputs:
        for symbol, size in symbol_values([value], shapes).items():
            if found.setdefault(symbol, size) != size:
                raise OptionError(f"fix: {symbol} has two sizes, {found[symbol]} and {size}")
    return found


def input_shapes(inputs: Iterable[HasShape], fixed: Shapes) -> Shapes:
    """The part of `fixed` that is shapes of inputs.

    One size of a name that an input and a symbol have is the input's only if it fixes that: if the
    input has one dimension, which is open, or an unknown rank.
    """
    there = _symbols_of(inputs := tuple(inputs))
    of_symbols = {
        v.name
        for v in inputs
        if v.name in there and len(fixed.get(v.name, ())) == 1 and not _is_open_vector(v)
    }
    return {v.name: fixed[v.name] for v in inputs if v.name in fixed.keys() - of_symbols}


def require_symbols(inputs: Sequence[HasShape], sizes: Iterable[tuple[str, object]]) -> None:
    """Raises OptionError if option `sizes` names what is no symbolic dimension of these inputs.

    Or if an input of this name has another one alone, so that either may be meant.
    """
    there, named = _symbols_of(inputs), {v.name: v for v in inputs}
    for name, _ in sizes:
        value = named.get(name)
        if name not in there:
            if own := _symbols_of([value] if value is not None else []):
                raise OptionError(f"sizes: {name} is an input; name its sizes {', '.join(own)}")
            among = valid_names(name, there)
            raise OptionError(f"sizes: {name} is no symbolic dimension of an input; known: {among}")
        if value is not None and value.dims not in (None, (name,)) and _is_open_vector(value):
            raise OptionError(
                f"sizes: {name} is a symbolic dimension and an input of other sizes; rename one"
            )


def _is_open_vector(value: HasShape) -> bool:
    dims = value.dims
    return dims is None or (len(dims) == 1 and not isinstance(dims[0], int))


def _symbols_of(inputs: Iterable[HasShape]) -> dict[str, None]:
    return dict.fromkeys(d for v in inputs for d in v.dims or () if _is_symbol(d))


def how_to_fix(inputs: Sequence[HasShape], fixed: Shapes) -> str:
    """What to do about inputs whose sizes a session leaves open although `fixed` is given."""
    symbols = _symbols_of(inputs)
    if by_input := [*input_shapes(inputs, fixed)]:
        return f"give sizes of its symbols: a session takes none by an input's name ({by_input[0]})"
    if fixed.keys() & symbols or not symbols:
        return "fix its symbols by name (SessionOptions.add_free_dimension_override_by_name)"
    near = next(filter(None, (suggestion(name, symbols) for name in fixed)), "")
    return f"name {', '.join(symbols)} in fix, which names {', '.join(fixed)}{near}"


def present(inputs: Iterable[HasShape], fixed: Shapes) -> Shapes:
    """The part of `fixed` that names an input or a symbolic dimension of these inputs.

    The other names are of another graph: `fix` names what the main graph has.
    """
    known = {name for v in inputs for name in (v.name, *(v.dims or ()))}
    return {name: sizes for name, sizes in fixed.items() if name in known}


def substitute_symbols(dims: Iterable[Dim], numbers: Mapping[str, int]) -> tuple[Dim, ...]:
    """The dimensions with known symbols replaced by their values."""
    return tuple(numbers.get(d, d) if isinstance(d, str) else d for d in dims)


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_MAX_TEXT = 200


def size_named(text: str, known: Mapping[str, int]) -> int | None:
    """The size of a dimension whose name is an expression of known ones; None for other names.

    PyTorch's exporter writes names such as `past + length` and `(height//2)`.
    """
    try:
        tree = ast.parse(text, mode="eval").body if len(text) <= _MAX_TEXT else None
        return _evaluated(tree, known) if isinstance(tree, ast.BinOp) else None
    except (ArithmeticError, KeyError, SyntaxError, ValueError):
        return None


def _evaluated(tree: ast.expr | None, known: Mapping[str, int]) -> int:
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](*(_evaluated(e, known) for e in (tree.left, tree.right)))
    if isinstance(tree, ast.Name):
        return known[tree.id]
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    raise ValueError("not an expression of sizes")


def symbol_of(name: str, dims: Sequence[Dim], axis: int) -> str:
    """The symbol of a tensor's dimension; one of its own where the model names none."""
    dim = dims[axis]
    return dim if _is_symbol(dim) else f"{name}.{axis}"


def _is_symbol(dim: Dim) -> TypeGuard[str]:
    return isinstance(dim, str) and dim != _UNNAMED


def _matches(dims: Sequence[Dim], shape: Sequence[int]) -> bool:
    return all(not isinstance(d, int) or d == s for d, s in zip(dims, shape, strict=True))
