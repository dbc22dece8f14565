"""Values of symbolic dimensions from shapes and from option `fix`."""

import pytest

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.sizes.symbols import (
    fixed_symbols,
    how_to_fix,
    substitute_symbols,
    symbol_values,
)

X = Value("x", DType.FLOAT, ("N", 3, None))
Z = Value("z", DType.FLOAT, ("N", "M"))
ANY = Value("any", DType.FLOAT)


def test_symbols_get_the_sizes_of_the_shapes() -> None:
    shapes = {"x": (2, 3, 7), "z": (2, 5), "any": (1,)}
    assert symbol_values([X, Z, ANY], shapes) == {"N": 2, "M": 5}
    assert symbol_values([X, Z, ANY], {}) == {}


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 7, 1), (2, 4, 7)])
def test_a_shape_that_contradicts_the_model_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(OptionError, match=r"x is fixed to .*; the model has \[N,3,\?\]"):
        symbol_values([X], {"x": shape})


def test_a_symbol_may_be_fixed_by_its_name_or_by_an_input() -> None:
    assert fixed_symbols([X, Z], {"M": (5,), "x": (2, 3, 7)}) == {"N": 2, "M": 5}


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"q": (1,)}, "fix: q is no input or symbolic dimension; known: x, z, N, M"),
        ({"M": (5, 5)}, r"fix: M is \[5, 5\]; a symbolic dimension has one size"),
        ({"N": (4,), "x": (2, 3, 7)}, "fix: N has two sizes, 4 and 2"),
        ({"x": (2, 3, 7), "z": (4, 5)}, "fix: N has two sizes, 2 and 4"),
    ],
)
def test_a_wrong_option_is_an_error(fixed: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fixed_symbols([X, Z], fixed)


def test_known_symbols_are_substituted() -> None:
    assert substitute_symbols(("N", 3, None, "M"), {"N": 2}) == (2, 3, None, "M")


@pytest.mark.parametrize(
    ("fixed", "way"),
    [
        ({"z": (2, 3)}, "give sizes of its symbols: a session takes none by an input's name (z)"),
        ({"seq": (4,), "k": (1,)}, "name N, M in fix, which names seq, k"),
        ({"NN": (4,)}, "name N, M in fix, which names NN; did you mean N?"),
        ({"N": (4,)}, "fix its symbols by name (SessionOptions.add_free_dimension_override_by_"),
    ],
)
def test_what_sizes_that_stay_open_need(fixed: dict[str, tuple[int, ...]], way: str) -> None:
    assert how_to_fix([Z], fixed).startswith(way)
