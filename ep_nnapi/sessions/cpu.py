"""Sessions on ONNX Runtime's CPU provider with exact integer products, for comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, parser

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.forks import keep_in_children


def with_external_weights(content: bytes, weights: Mapping[str, Array]) -> bytes:
    """Return a model whose last inputs, the weights, are external initializers instead."""
    if not weights:
        return content
    proto = ModelProto.FromString(content)
    del proto.graph.input[-len(weights) :]
    for name, value in weights.items():
        tensor = proto.graph.initializer.add(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
            dims=value.shape,
            data_location=TensorProto.EXTERNAL,
        )
        tensor.external_data.add(key="location", value="weights")
    changed: bytes = proto.SerializeToString()
    return changed


_library: ContextVar[str | None] = ContextVar("custom_ops_library", default=None)
_UNKNOWN = re.compile(
    r"Fatal error: (?P<domain>[^\s:]+):(?P<name>\w+)\(.*not a registered function/op"
)
_KNOWN = {"ai.onnx", "com.microsoft"}
_OWN = _KNOWN | {
    "",
    "ai.onnx.ml",
    "ai.onnx.training",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
}


@contextmanager
def custom_ops(library: str | None) -> Iterator[None]:
    """Registers the library in all sessions of this thread within the context; None for none.

    Sessions are created at many depths, also for parts of models, and each may have its nodes.
    """
    token = _library.set(library)
    try:
        yield
    finally:
        _library.reset(token)


def custom_ops_library() -> str | None:
    """Returns the library that the context registers; None for none."""
    return _library.get()


def is_custom(domain: str) -> bool:
    """True for domains whose operators are neither ONNX's nor ONNX Runtime's own."""
    return domain not in _OWN and not domain.startswith("ai.onnx.preview")


def register_custom_ops(options: onnxruntime.SessionOptions) -> None:
    """Registers the context's library, if any; raises OptionError if it cannot be loaded."""
    library = custom_ops_library()
    if library is None:
        return
    try:
        options.register_custom_ops_library(library)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        said = str(error).rpartition(": FAIL : ")[2]
        raise OptionError(f"custom_ops_library cannot be used: {said}") from None


def advice(error: str) -> str:
    """Advice for an ONNX Runtime error about an unknown operator domain; "" for other errors."""
    found = _UNKNOWN.search(error)
    if found is None or found["domain"] in _KNOWN:
        return ""
    return (
        f"; operator {found['name']} is of domain {found['domain']}, which is not ONNX Runtime's "
        "own: give the shared library that has it as custom_ops_library (--custom-ops-library FILE)"
    )


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


_MAPPED = ("session.use_memory_mapped_ort_model", "session.use_ort_model_bytes_for_initializers")
"""Session options to read an .ort file's weights where they are in the file.

Without both, a session with a plugin copies them three times. Of no effect for other models, and
before ONNX Runtime 1.26.
"""


def exact_options() -> onnxruntime.SessionOptions:
    """Session options for exact integer products; only fatal errors are logged.

    Processors whose products are exact anyway keep ONNX Runtime's faster kernels.
    """
    options = quiet_options()
    if saturates():
        options.add_session_config_entry(_EXACT, "1")
    return options


def quiet_options(
    level: onnxruntime.GraphOptimizationLevel | None = None,
) -> onnxruntime.SessionOptions:
    """Session options that log only fatal errors; `level`: of ONNX Runtime's optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if level is not None:
        options.graph_optimization_level = level
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
    for key in _MAPPED:  # here, since ONNX Runtime warns of what is set a second time
        chosen.add_session_config_entry(key, "1")
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
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]>'
        "probe (uint8[1, 64] a, int8[64, 1] b) => (int32[1, 1] y) { y = MatMulInteger(a, b) }"
    )
    session = session_of(model.SerializeToString(), quiet_options())
    (sums,) = session.run(None, {"a": row, "b": column})
    return int(sums[0, 0]) != 64 * 255 * 127
