"""ONNX Runtime's CPU provider where others are compared with it: as exact as it can be made."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from ep_nnapi.sessions.custom_ops import register_custom_ops

CPU = "CPUExecutionProvider"

_EXACT = "session.x64quantprecision"
"""Computes uint8 x int8 as uint8 x uint8, which no processor saturates.

It takes effect from optimization level extended on, for constant weights.
"""


_REWRITER = "Avx2WeightS8ToU8Transformer"
"""The optimizer of ONNX Runtime that does so."""


def exact_options() -> onnxruntime.SessionOptions:
    """Session options for exact integer products, which log only what ends a session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(_EXACT, "1")
    return options


def session_of(
    model: str | bytes,
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[object] = (CPU,),
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """A stock session, on the CPU provider unless `providers` says otherwise.

    options   as `exact_options` makes them, which is the default
    without   names of ONNX Runtime's optimizers to leave out
    A model with products of two int8 tensors (QLinearConv, QLinearMatMul, QGemm) has operators
    without a kernel once ONNX Runtime has made it exact. Such products do not saturate, so the
    model is then loaded as it is.
    """
    chosen = exact_options() if options is None else options
    register_custom_ops(chosen)
    try:
        return _opened(model, chosen, providers, without)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        if "NOT_IMPLEMENTED" not in str(error) or not is_exact(chosen):
            raise
        return _opened(model, chosen, providers, [*without, _REWRITER])


def _opened(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    providers: Sequence[object],
    without: Sequence[str],
) -> onnxruntime.InferenceSession:
    left_out = {"disabled_optimizers": list(without)} if without else {}
    return onnxruntime.InferenceSession(model, options, providers=list(providers), **left_out)


def is_exact(options: onnxruntime.SessionOptions) -> bool:
    """Whether they ask for exact integer products."""
    try:
        return str(options.get_session_config_entry(_EXACT)) == "1"
    except RuntimeError:  # ONNX Runtime's way of saying that there is no such entry
        return False


@cache
def saturates() -> bool:
    """Whether the CPU provider saturates sums of uint8 x int8 products in 16 bits here.

    It does on x86-64 processors without VNNI. Asked with two tensors that are fed, which no option
    makes exact.
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
    (sums,) = session_of(model.SerializeToString()).run(None, given)
    return int(sums[0, 0]) != 64 * 255 * 127
