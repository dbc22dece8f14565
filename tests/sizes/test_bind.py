"""Symbolic sizes bound to numbers."""

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Dim, DType, Value
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.sizes.bind import bind_shapes, is_dynamic
from ep_nnapi.sizes.inference import shape_conflict, unconfirmed_shape
from ep_nnapi.sizes.symbols import (
    Shapes,
    fixed_symbols,
    how_to_fix,
    input_shapes,
    require_symbols,
    substitute_symbols,
    symbol_values,
)
from tests.end_to_end.small_models import Taken, close, drawn, taken
from tests.onnx_graph import graph_of, model_of


def convolution() -> Graph:
    """x [batch, 3, height, width] -> Conv stride 2 -> GlobalAveragePool -> Flatten -> y."""
    text = """c = Conv <strides = [2,2], pads = [1,1,1,1]> (x, w)
        p = GlobalAveragePool (c) y = Flatten (p)"""
    ends = {"x": ("batch", 3, "height", None)}, {"y": ("batch", 8)}
    return graph_of(model_of(text, *ends, {"w": np.zeros((8, 3, 3, 3), np.float32)}))


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {o.name: o.shape for n in graph.nodes for o in n.outputs if o is not None}


def test_every_size_follows_from_the_inputs() -> None:
    graph = bind_shapes(convolution(), {"x": (2, 3, 9, 11)})
    assert shapes(graph) == {"c": (2, 8, 5, 6), "p": (2, 8, 1, 1), "y": (2, 8)}
    assert graph.inputs[0].shape == (2, 3, 9, 11)


def test_a_graph_without_symbols_needs_no_inference() -> None:
    static = bind_shapes(convolution(), {"x": (1, 3, 8, 8)})
    assert not is_dynamic(o for n in static.nodes for o in n.outputs if o is not None)
    assert bind_shapes(static, {}) == static


# Values of symbolic dimensions from shapes and from option `fix`

X = Value("x", DType.FLOAT, ("N", 3, None))
Z = Value("z", DType.FLOAT, ("N", "M"))


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
    ("dims", "sizes", "shapes", "symbols"),
    [
        (("n", 3), (4,), {}, {"n": 4}),
        (("n", 3), (4, 3), {"n": (4, 3)}, {"n": 4}),
        (("n",), (4,), {"n": (4,)}, {"n": 4}),
        (("m",), (4,), {"n": (4,)}, {"m": 4}),
        ((5,), (4,), {}, {"n": 4}),
        ((), (4,), {}, {"n": 4}),
        (None, (4,), {"n": (4,)}, {}),
    ],
)
def test_a_size_of_an_inputs_and_a_symbols_name_is_what_it_can_be(
    dims: tuple[Dim, ...] | None,
    sizes: tuple[int, ...],
    shapes: Shapes,
    symbols: dict[str, int],
) -> None:
    inputs = Value("n", DType.FLOAT, dims), Value("x", DType.FLOAT, ("n", 2))
    assert input_shapes(inputs, {"n": sizes}) == shapes
    assert fixed_symbols(inputs, {"n": sizes}) == symbols


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        (("n", 3), ""),
        (("n",), ""),
        ((), ""),
        (None, ""),
        (("m", 3), ""),
        (("m",), "sizes: n is a symbolic dimension and an input of other sizes; rename one"),
    ],
)
def test_sizes_are_those_of_the_symbol_that_an_input_has_the_name_of(
    dims: tuple[Dim, ...] | None, said: str
) -> None:
    inputs = Value("n", DType.FLOAT, dims), Value("x", DType.FLOAT, ("n", 2))
    if said:
        with pytest.raises(OptionError, match=said):
            require_symbols(inputs, [("n", (2, 4))])
    else:
        require_symbols(inputs, [("n", (2, 4))])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", "sizes: x is an input; name its sizes N"),
        ("y", "sizes: y is no symbolic dimension of an input; known: N, M"),
    ],
)
def test_sizes_name_symbols(name: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        require_symbols([X, Z], [(name, (2, 4))])


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


# Declared output shapes, compared with ONNX's shape inference


def matmul(y: tuple[Dim, ...] | None, inner: int = 3, **kind: str) -> GraphNode:
    a, b = Value("a", DType.FLOAT, (2, 3)), Value("b", DType.FLOAT, (inner, 4))
    kind = {"op_type": "MatMul", "domain": "", **kind}
    return GraphNode(0, "m", since=13, inputs=(a, b), outputs=(Value("y", DType.FLOAT, y),), **kind)


@pytest.mark.parametrize("declared", [(2, 4), (2, "n"), (None, None), None])
def test_consistent_or_unknown_shapes_have_no_conflict(declared: tuple[Dim, ...] | None) -> None:
    assert shape_conflict(matmul(declared)) == ""


@pytest.mark.parametrize("declared", [(2, 5), (2, 4, 1), (8,)])
def test_another_declared_shape_is_named(declared: tuple[Dim, ...]) -> None:
    said = shape_conflict(matmul(declared))
    assert said == f"y is declared as {list(declared)}, inferred as [2, 4]"


def test_inconsistent_inputs_give_the_reason_of_shape_inference() -> None:
    said = shape_conflict(matmul((2, 4), inner=5))
    assert said == "Incompatible dimensions for matrix multiplication"


def test_operators_without_shape_inference_have_no_conflict() -> None:
    assert shape_conflict(matmul((7, 7), op_type="Nowhere", domain="x")) == ""


def test_sizes_that_inference_finds_are_confirmed() -> None:
    assert unconfirmed_shape(matmul((2, 4))) == ""


def test_sizes_that_only_a_declaration_gives_are_named() -> None:
    said = unconfirmed_shape(matmul((7, 7), op_type="Nowhere", domain="x"))
    assert said == "y is only declared as [7, 7]"


# Sizes that ONNX Runtime declares and does not compute are not believed


def pooled(
    stride: int, declared: int, pads: list[int], opset: int = 13, ceil_mode: int = 1
) -> onnx.ModelProto:
    """A pool of windows of 3 over 8 elements that is left to the CPU, and a Sigmoid after it."""
    window = f"kernel_shape = [1, 3], strides = [1, {stride}], pads = {pads}"
    nodes = f"p = AveragePool <{window}, ceil_mode = {ceil_mode}> (X) Y = Sigmoid (p)"
    return model_of(nodes, {"X": (1, 1, 5, 8)}, {"Y": (1, 1, 5, declared)}, opset=opset)


@pytest.mark.parametrize("ceil_mode", [1, 255, -1])
def test_a_last_window_in_the_padding_is_not_counted(ceil_mode: int):
    """Windows start at -1, 2, 5 and 8, which is beyond the 8 elements; 4 are declared."""
    model = pooled(3, 4, [0, 1, 0, 2], ceil_mode=ceil_mode)
    close(model, {"X": drawn(1, 1, 5, 8)}, exclude="AveragePool")


@pytest.mark.parametrize(("stride", "declared", "pads"), [(3, 3, [0] * 4), (2, 5, [0, 1, 0, 1])])
def test_a_last_window_that_starts_inside_counts(stride: int, declared: int, pads: list[int]):
    model = pooled(stride, declared, pads)
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(1, 1, 5, 8)})


@pytest.mark.parametrize("opset", [11, 19, 22])
def test_sizes_after_it_are_those_that_are_computed(opset: int):
    """3 windows, of which ONNX's shape inference knows from opset 22 on."""
    model = pooled(3, 4, [0, 1, 0, 2], opset)
    report = ep_nnapi.check(model, exclude="AveragePool")
    assert report.clusters[0].boundary_bytes == 2 * 4 * (5 * 3)
    close(model, {"X": drawn(1, 1, 5, 8)}, exclude="AveragePool")
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(1, 1, 5, 8)})


# Data-dependent shapes: nodes that read them are taken, or refused with their producer


def found(batch: int | str) -> bytes:
    """x [batch, 4] -> Relu -> NonZero -> Cast -> Mul, and x -> Neg: three data-dependent shapes."""
    text = """r = Relu (x) [search] places = NonZero (r) [cast] reals = Cast <to = 1> (places)
        [mul] y = Mul (reals, two) [neg] z = Neg (x)"""
    ends = {"x": (batch, 4)}, {"y": None, "z": None}
    return model_of(text, *ends, {"two": np.float32(2)}).SerializeToString()


def details(batch: int | str, **options: str) -> dict[str, str]:
    report = ep_nnapi.check(found(batch), **options)
    return {r.node: r.detail for r in report.rejections}


@pytest.mark.parametrize("batch", [2, "batch"])
def test_what_reads_them_is_taken(batch: int | str) -> None:
    assert details(batch).keys() == {"search"}


@pytest.mark.parametrize("options", [{"dynamic_shapes": "off"}, {"target": "builtin-nnapi"}])
def test_the_node_that_finds_them_is_named_where_only_known_sizes_are_taken(options):
    seen = details(2, **options)
    assert seen.keys() >= {"search", "cast", "mul"}
    assert "places has a data-dependent shape, produced by search" in seen["cast"]
    assert "reals has a data-dependent shape, produced by search" in seen["mul"]


def test_sizes_of_inputs_are_to_be_fixed() -> None:
    expected = "x dimension 0 is 'batch'; fix it to a number"
    assert details("batch", dynamic_shapes="off")["neg"] == expected
