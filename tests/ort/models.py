"""Small ONNX models as bytes."""

import numpy as np

from tests.onnx_graph import Shape, model_of, serialized


def abs_add(shape: Shape = (2, 3), dtype: type = np.float32) -> bytes:
    """y = |x| + x, two nodes in a row."""
    nodes, kind = "[abs] a = Abs (x) [add] y = Add (a, x)", (dtype, shape)
    return model_of(nodes, {"x": kind}, {"y": kind}).SerializeToString()


def if_abs_add() -> bytes:
    """y = |x| + x if c, else x + x: a main graph and two inner ones."""
    return serialized("""(bool c, float[2,3] x) => (float[2,3] y) {
        [if] y = If (c) <
            then_branch = g () => (float[2,3] t) { [abs] a = Abs (x) [add] t = Add (a, x) },
            else_branch = g () => (float[2,3] e) { [twice] e = Add (x, x) }> }""")
