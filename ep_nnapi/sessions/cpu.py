"""Sessions on ONNX Runtime's CPU provider with exact integer products, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from ep_nnapi.nnapi.forks import keep_in_children
from ep_nnapi.sessions.custom_ops import register_custom_ops

CPU = "CPUExecutionProvider"

_EXACT = "session.x64quantprecision"
"""Session option to compute uint8 x int8 as uint8 x uint8, which saturates on no processor.

It takes effect for constant weights, from optimization level extended on.
"""


_REWRITER, _REWRITER_OF_QDQ = "Avx2WeightS8ToU8Transformer", "QDQS8ToU8Transformer"
"""The ONNX Runtime optimizers that apply `_EXACT`."""
_FAILURES = {
    "NOT_IMPLEMENTED": (_REWRITER,),
    "Attempt to replace the existing tensor": (_REWRITER, _REWRITER_OF_QDQ, "MatMulAddFusion"),
    "Shape of initializer gemm_": ("MatMulAddFusion",),
}
"""Errors of these optimizers, and what to leave out then.

MatMulAddFusion fails on nodes that it has made in an earlier session: it gives names again.
"""


def exact_options() -> onnxruntime.SessionOptions:
    """Session options for exact integer products; only fatal errors are logged.

    Processors whose products are exact anyway keep ONNX Runtime's faster kernels.
    """
    options = _silent_options()
    if saturates():
        options.add_session_config_entry(_EXACT, "1")
    return options


def _silent_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def session_of(
    model: str | bytes,
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[object] = (CPU,),
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """Creates an ONNX Runtime session, by default on the CPU provider.

    options   default: `exact_options()`
    without   names of ONNX Runtime optimizers to disable
    For products of two int8 tensors (QLinearConv, QLinearMatMul, QGemm), the exactness rewrite
    creates nodes that have no kernel; such products do not saturate. Where weights share a zero
    point, as in models that PyTorch exports, it creates that twice and fails. In both cases the
    session is created without the rewrite; so it is without MatMulAddFusion where that fails.
    """
    chosen = exact_options() if options is None else options
    register_custom_ops(chosen)
    try:
        return _create_session(model, chosen, providers, without)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        left_out = [found for said, found in _FAILURES.items() if said in str(error)]
        if not left_out:
            raise
        return _create_session(model, chosen, providers, [*without, *left_out[0]])


def _create_session(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    providers: Sequence[object],
    without: Sequence[str],
) -> onnxruntime.InferenceSession:
    left_out = {"disabled_optimizers": list(without)} if without else {}
    made = onnxruntime.InferenceSession(model, options, providers=list(providers), **left_out)
    keep_in_children(made)
    return made


@cache
def saturates() -> bool:
    """True if this machine's CPU provider saturates sums of uint8 x int8 products at 16 bits.

    It does on x86-64 processors without VNNI. The probe feeds both tensors as inputs, for which
    no session option gives exact products.
    """
    row, column = np.full((1, 64), 255, np.uint8), np.full((64, 1), 127, np.int8)
    given = {"a": row, "b": column}
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "probe",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, row.shape),
            helper.make_tensor_value_info("b", TensorProto.INT8, column.shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (1, 1))],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (sums,) = session_of(model.SerializeToString(), _silent_options()).run(None, given)
    return int(sums[0, 0]) != 64 * 255 * 127
