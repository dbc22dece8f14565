"""ONNX Runtime's NNAPI execution provider for the stock onnxruntime wheel."""

from __future__ import annotations

from ep_nnapi.checking import check
from ep_nnapi.ort.session import (
    append_execution_provider,
    get_ep_names,
    get_library_path,
    register,
)
from ep_nnapi.rejection import (
    ModelError,
    NnapiError,
    OptionError,
    Reason,
    Rejection,
    RuntimeFailure,
    SpecError,
)
from ep_nnapi.report import ClusterReport, Report
from ep_nnapi.target import NnapiFlag

__all__ = [
    "ClusterReport",
    "ModelError",
    "NnapiError",
    "NnapiFlag",
    "OptionError",
    "Reason",
    "Rejection",
    "Report",
    "RuntimeFailure",
    "SpecError",
    "append_execution_provider",
    "check",
    "get_ep_names",
    "get_library_path",
    "register",
]
