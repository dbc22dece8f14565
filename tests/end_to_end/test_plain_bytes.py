"""Bytes that are numbers and no more, as pictures are, moved before they become floats."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import ep_nnapi
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import model, node

U8, S8, REAL = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT
PICTURE = (1, 6, 8, 3)  # channels last
NEAREST = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}
CONSTANTS = {
    "shape": np.array([8, -1], np.int64),
    "pads": np.array([0, 1, 2, 0, 0, 1, 0, 0], np.int64),
    "grey": np.uint8(114),
    "dark": np.int8(-114),
    "first": np.array([1], np.int64),
    "last": np.array([4], np.int64),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 2, 2, 1], np.float32),
    "most": np.float32(255),
}
TRANSPOSED = node("Transpose", "x", "t", perm=[0, 3, 1, 2])
CASES: dict[str, tuple[Sequence[onnx.NodeProto], int, int]] = {  # nodes, output, lowest level
    "made floats": (
        [TRANSPOSED, node("Cast", "t", "f", to=REAL), node("Div", "f most", "y")],
        REAL,
        2,
    ),
    "Reshape": ([node("Reshape", "x shape", "y")], U8, 1),
    "MaxPool": ([TRANSPOSED, node("MaxPool", "t", "y", kernel_shape=[2, 2])], U8, 2),
    "Slice": ([node("Slice", "x first last first", "y")], U8, 2),
    "Concat": ([node("Concat", "x x", "y", axis=3)], U8, 1),
    "Gather": ([node("Gather", "x first", "y", axis=3)], U8, 3),
    "Pad": ([node("Pad", "x pads grey", "y")], U8, 3),
    "Resize": ([node("Resize", "x none twice", "y", **NEAREST)], U8, 3),
}


def fed(kind: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": numbers.astype(np.uint8).view(np.uint8 if kind == U8 else np.int8)}


NUMBERS = np.random.default_rng(0).integers(0, 256, PICTURE)


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_taken_and_unchanged(name: str) -> None:
    nodes, out, lowest = CASES[name]
    built = model(nodes, {"x": (U8, PICTURE)}, {"y": out}, CONSTANTS)
    feeds = fed(U8, NUMBERS)
    want = q.on_cpu(built, feeds)[0]
    for level in {lowest, 3, 8}:
        assert not ep_nnapi.check(built.SerializeToString(), feature_level=level).rejections
        got = q.on_nnapi(built, feeds, feature_level=level)[0]
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("level", [3, 4])
def test_signed_bytes_are_unsigned_inside_on_older_levels(level: int) -> None:
    """Addends are numbers as stored, too."""
    nodes = [TRANSPOSED, node("Pad", "t pads dark", "y")]
    built = model(nodes, {"x": (S8, PICTURE)}, {"y": S8}, CONSTANTS)
    feeds = fed(S8, NUMBERS)
    assert not ep_nnapi.check(built.SerializeToString(), feature_level=level).rejections
    got, want = q.on_nnapi(built, feeds, feature_level=level), q.on_cpu(built, feeds)
    np.testing.assert_array_equal(got[0], want[0], strict=True)


def test_what_is_computed_between_bytes_is_refused() -> None:
    """Between pixels ONNX Runtime cuts fractions off, where NNAPI rounds."""
    between = {**NEAREST, "mode": "linear"}
    del between["nearest_mode"]
    nodes = [TRANSPOSED, node("Resize", "t none half", "y", **between)]
    constants = {**CONSTANTS, "half": np.array([1, 1, 0.5, 0.5], np.float32)}
    built = model(nodes, {"x": (U8, PICTURE)}, {"y": U8}, constants)
    (refused,) = ep_nnapi.check(built.SerializeToString()).rejections
    assert (refused.op_type, refused.reason) == ("Resize", "DTYPE")
