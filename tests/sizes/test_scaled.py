"""Sizes by scales are those that ONNX Runtime's kernels compute, where shape inference differs."""

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from ep_nnapi.sizes.inference import infer_outputs
from ep_nnapi.sizes.scaled import declares_other_scaled_size
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import graph_of, parsed

FORMS = {
    "Upsample-9": (9, "a = Upsample <mode = 'nearest'> (x, scales)"),
    "Resize-10": (10, "a = Resize <mode = 'linear'> (x, scales)"),
    "Resize-13": (13, "a = Resize <mode = 'linear'> (x, , scales)"),
    "Resize-18": (18, "a = Resize <mode = 'nearest', axes = [-1]> (x, , scales)"),
}


def resized(form: str, out: int, size: int, dim: int | str) -> onnx.ModelProto:
    """x [1, 2, 4, dim] -> Resize by float32(out / size) along the last axis -> Relu -> y."""
    opset, text = FORMS[form]
    scales = np.float32([1, 1, 1, np.float32(out) / np.float32(size)])
    text = f"(float[1,2,4,{dim}] x) => (float[] y) {{ {text} y = Relu (a) }}"
    model = parsed(text.replace("'", '"'), opset, scales=scales[-1:] if opset == 18 else scales)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("dim", [3, "width"])
@pytest.mark.parametrize("form", FORMS)
def test_a_product_that_floats_round_up_is_what_the_cpu_provider_computes(form, dim):
    """5/3 as a float32 times 3 is 4.9999999, and 5 in float32."""
    model = resized(form, 5, 3, dim)
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 3)).astype(np.float32)
    session = nnapi_session(model, severity=4, partitioning="maximal")
    (got,), (want,) = (
        s.run(None, {"x": x}) for s in (session, session_of(model.SerializeToString()))
    )
    assert want.shape == (1, 2, 4, 5)
    np.testing.assert_allclose(got, want, atol=1e-6)  # two products added
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (len(cluster["nodes"]), cluster["fallbacks"]) == (2, [])


@pytest.mark.parametrize(("out", "size"), [(5, 3), (16, 31), (3, 5), (2, 1)])
def test_a_declared_size_is_compared(out: int, size: int) -> None:
    (node, *_) = graph_of(resized("Resize-13", out, size, size)).nodes
    declared = node.outputs[0]
    assert declared is not None
    assert declares_other_scaled_size(node) == (declared.dims != (1, 2, 4, out))
    (found,) = infer_outputs(node)
    assert found.dims == (1, 2, 4, out)


def test_sizes_that_nothing_determines_stay() -> None:
    (node, *_) = graph_of(resized("Resize-13", 5, 3, "width")).nodes
    assert not declares_other_scaled_size(node)
