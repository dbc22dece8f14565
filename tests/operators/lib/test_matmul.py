"""Matrix products by the operations that a level has, and Gemm, against numpy in float64."""

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.call import View
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.matmul import (
    MATRIX_TRANSPOSE,
    MAX_BATCH_LAYERS,
    affine,
    product,
    scaled_constant,
    write_fully_connected,
)
from tests.cases import each
from tests.operators.lib.emitting import (
    Emitted,
    constant,
    emitted,
    floats,
    node,
    ran,
    value,
    written,
)

SHAPES = [
    ((2, 3), (3, 4)),
    ((2, 2, 3), (3, 4)),
    ((2, 2, 2, 3), (1, 1, 3, 4)),
    ((3, 2, 3), (3, 3, 4)),
    ((1, 2, 3), (3, 3, 4)),
    ((2, 1, 2, 3), (3, 3, 4)),
    ((2, 3, 1, 2, 3), (2, 1, 2, 3, 4)),  # rank 5: the batch is one axis
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("level", [4, 6])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_products_match(a: tuple[int, ...], b: tuple[int, ...], level: int) -> None:
    lhs, rhs = floats(*a), floats(*b)[::-1].copy()
    exact = np.matmul(lhs.astype(np.float64), rhs).astype(np.float32)
    found = written(product, lhs, rhs, like=exact, level=level)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


@pytest.mark.parametrize("level", [4, 6])
@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_transposed_operands_match(adj_x: bool, adj_y: bool, batch, level: int) -> None:
    lhs, rhs = floats(*batch, 2, 3), floats(*batch, 3, 4)
    exact = np.matmul(lhs.astype(np.float64), rhs).astype(np.float32)
    given = [
        np.ascontiguousarray(np.swapaxes(m, -1, -2)) if swapped else m
        for m, swapped in ((lhs, adj_x), (rhs, adj_y))
    ]
    found = written(
        lambda n, a, b, y: product(n, a, b, y, adj_x=adj_x, adj_y=adj_y),
        *given,
        like=exact,
        level=level,
    )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


def names(a: tuple[int, ...], b: tuple[int, ...], level: int) -> list[str]:
    lhs, rhs = value("a", np.zeros(a, np.float32)), value("b", np.zeros(b, np.float32))
    y = value("y", np.matmul(np.zeros(a, np.float32), np.zeros(b, np.float32)))
    return emitted(product, node([lhs, rhs], [y], level=level), lhs, rhs, y).names


def test_one_matrix_is_a_layer_and_a_batch_one_operation_from_level_6_on() -> None:
    assert names((5, 3), (3, 4), 1) == ["FULLY_CONNECTED"]
    assert names((2, 5, 3), (2, 3, 4), 6) == ["BATCH_MATMUL"]
    below = names((2, 5, 3), (2, 3, 4), 5)
    assert below.count("FULLY_CONNECTED") == 2
    assert "CONCATENATION" in below


def test_batches_at_the_limit_and_past_it() -> None:
    """Past it, BATCH_MATMUL stays, which the level then refuses."""
    most = MAX_BATCH_LAYERS
    assert names((most, 1, 2), (most, 2, 1), 5).count("FULLY_CONNECTED") == most
    assert names((most + 1, 1, 2), (most + 1, 2, 1), 5) == ["BATCH_MATMUL"]


CHANNELS = Quantization((0.5, 0.25), (0, 0), 0)
STORED = np.array([[1, 2, 3], [4, 5, 6]], np.int8)


def layer(weights: Value | View):
    q = Quantization((1.0,), (0,))
    rows, y = Value("x", DType.INT8, (4, 3), q), Value("y", DType.INT8, (4, 2), q)
    shift = constant(np.zeros(2, np.int32), name="b")
    n = node([rows], [y])
    return emitted(write_fully_connected, n, rows, weights, shift, y)


def test_a_scale_for_each_unit_needs_a_convolution() -> None:
    one_scale = constant(STORED, Quantization((0.5,), (0,)))
    assert layer(one_scale).names == ["FULLY_CONNECTED"]
    made = layer(constant(STORED, CHANNELS))
    assert made.names == ["RESHAPE", "CONV_2D", "RESHAPE"]
    assert made.calls[1].named()["input"].shape == (1, 4, 1, 3)  # one product, not one per row
    filters = made.calls[1].named()["filter"]
    assert filters.shape == (2, 1, 1, 3)
    assert filters.quantization == CHANNELS
    assert filters.constant.array.reshape(2, 3).tolist() == STORED.tolist()


def test_transposed_weights_with_scales_along_their_outputs() -> None:
    stored = constant(STORED.T.copy(), Quantization((0.5, 0.25), (0, 0), 1))
    filters = layer(View(stored, MATRIX_TRANSPOSE)).calls[1].named()["filter"]
    assert filters.constant.array.reshape(2, 3).tolist() == STORED.tolist()
    assert filters.quantization.axis == 0


def test_scales_along_the_inputs_are_refused() -> None:
    stored = constant(STORED, Quantization((0.5, 0.25, 1.0), (0, 0, 0), 1))
    with pytest.raises(Reject, match="w has scales along its inputs; quantize it along") as caught:
        layer(stored)
    assert caught.value.reason is Reason.QUANTIZATION


def test_a_constant_is_scaled_in_its_own_type() -> None:
    w = constant(floats(2, 3))
    found = scaled_constant(node(), w, 0.1)
    np.testing.assert_array_equal(found.constant.array, w.constant.array * np.float32(0.1))
    assert scaled_constant(node(), w, 1) is w
    x = value("x", floats(2))
    assert scaled_constant(node(), x, 0.1) is x


def test_a_quantized_constant_is_not_scaled() -> None:
    w = constant(STORED, Quantization((0.5,), (0,)))
    assert scaled_constant(node(), w, 1) is w
    with pytest.raises(Reject, match="w is quantized; use a factor of 1") as caught:
        scaled_constant(node(), w, 2)
    assert caught.value.reason is Reason.ATTRIBUTE


A, B = floats(4, 3), floats(3, 2)[::-1].copy()
C = {
    "none": None,
    "scalar": floats(1),
    "row": floats(2),
    "row of rank 2": floats(1, 2),
    "column": floats(4, 1),
    "matrix": floats(4, 2),
}


def lowered(inputs: dict[str, Value], **attributes: object) -> tuple[Emitted, Value]:
    y = value("y", np.zeros((4, 2), np.float32))
    n = node(list(inputs.values()), [y], **attributes)
    read = [v for v in inputs.values() if v.constant is None]
    return emitted(affine, n, y, inputs=read), y


def gemm(feeds: dict[str, np.ndarray], constants: str, **attributes: object):
    """The result, and the operations; `constants` names the inputs that are constant."""
    inputs = {
        name: constant(array, name=name) if name in constants else value(name, array)
        for name, array in feeds.items()
    }
    made, y = lowered(inputs, **attributes)
    given = {name: a for name, a in feeds.items() if name not in constants}
    return ran(made, y, given, 8), made.names


@pytest.mark.parametrize("constants", ["", "b", "c", "bc"])
@each("c", C.values())
@each(("alpha", "beta"), [(1, 1), (0.5, 1), (1, 2), (0.5, -2), (2, 0)])
def test_matches(alpha: float, beta: float, c: np.ndarray | None, constants: str) -> None:
    feeds = {"a": A, "b": B} | ({} if c is None else {"c": c})
    exact = alpha * (A.astype(np.float64) @ B) + (0 if c is None else beta * c.astype(np.float64))
    found, _ = gemm(feeds, constants, alpha=alpha, beta=beta)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


@pytest.mark.parametrize("constants", ["", "bc"])
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_transposed_matrices_match(trans_a: int, trans_b: int, constants: str) -> None:
    feeds = {"a": A.T.copy() if trans_a else A, "b": B.T.copy() if trans_b else B, "c": C["row"]}
    found, _ = gemm(feeds, constants, transA=trans_a, transB=trans_b)
    np.testing.assert_allclose(found, A.astype(np.float64) @ B + C["row"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("c", "constants", "factors", "operations"),
    [
        ("row", "bc", {"alpha": 0.5, "beta": 2}, ["FULLY_CONNECTED"]),  # both in the constants
        ("scalar", "bc", {}, ["FULLY_CONNECTED"]),
        ("row", "b", {}, ["FULLY_CONNECTED"]),
        ("row", "b", {"beta": 2}, ["FULLY_CONNECTED", "MUL", "ADD"]),  # a bias is not scaled
        ("column", "bc", {}, ["FULLY_CONNECTED", "ADD"]),
        ("none", "", {"alpha": 0.5}, ["FULLY_CONNECTED", "MUL"]),
    ],
)
def test_factors_and_the_sum_fold_where_they_can(c, constants, factors, operations) -> None:
    feeds = {"a": A, "b": B} | ({} if C[c] is None else {"c": C[c]})
    assert gemm(feeds, constants, **factors)[1] == operations
