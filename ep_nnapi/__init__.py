"""ONNX Runtime's NNAPI execution provider for the stock onnxruntime wheel.

Names are imported when they are first used, so that the NNAPI runtime alone (libneuralnetworks.so
in a C program) loads neither onnx nor onnxruntime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ep_nnapi.collection import paused_collection

if TYPE_CHECKING:
    __version__: str

    from ep_nnapi.bundling.bundle import bundle as bundle
    from ep_nnapi.costs import Calibration as Calibration
    from ep_nnapi.diagnostics.calibrate import calibrate as calibrate
    from ep_nnapi.diagnostics.calibrate import record_profile as record_profile
    from ep_nnapi.diagnostics.check import check as check
    from ep_nnapi.diagnostics.compare import compare as compare
    from ep_nnapi.diagnostics.doctor import doctor as doctor
    from ep_nnapi.diagnostics.run_and_compare import run as run
    from ep_nnapi.errors import Rejection as Rejection
    from ep_nnapi.html_report.write import write_report as write_report
    from ep_nnapi.nnapi.capi import context_library_path as context_library_path
    from ep_nnapi.nnapi.capi import libneuralnetworks_path as libneuralnetworks_path
    from ep_nnapi.nnapi.errors import ModelError as ModelError
    from ep_nnapi.nnapi.errors import NnapiError as NnapiError
    from ep_nnapi.nnapi.errors import OptionError as OptionError
    from ep_nnapi.nnapi.errors import Reason as Reason
    from ep_nnapi.nnapi.errors import RuntimeFailure as RuntimeFailure
    from ep_nnapi.nnapi.errors import SpecError as SpecError
    from ep_nnapi.operators import ops as ops
    from ep_nnapi.options.target import NnapiFlag as NnapiFlag
    from ep_nnapi.ort.session import append_execution_provider as append_execution_provider
    from ep_nnapi.ort.session import get_ep_name as get_ep_name
    from ep_nnapi.ort.session import get_ep_names as get_ep_names
    from ep_nnapi.ort.session import get_library_path as get_library_path
    from ep_nnapi.ort.session import register as register
    from ep_nnapi.preparation.batch import prepare as prepare
    from ep_nnapi.provider.devices import devices as devices
    from ep_nnapi.provider.receipt import receipts as receipts
    from ep_nnapi.report.report import Report as Report
    from ep_nnapi.rewriting.fix import fix as fix
    from ep_nnapi.tuning.tune import tune as tune

_NAMES = {
    "bundling.bundle": "bundle",
    "costs": "Calibration",
    "diagnostics.calibrate": "calibrate record_profile",
    "diagnostics.check": "check",
    "diagnostics.compare": "compare",
    "diagnostics.doctor": "doctor",
    "diagnostics.run_and_compare": "run",
    "errors": "Rejection",
    "html_report.write": "write_report",
    "nnapi.capi": "context_library_path libneuralnetworks_path",
    "nnapi.errors": "ModelError NnapiError OptionError Reason RuntimeFailure SpecError",
    "operators": "ops",
    "options.target": "NnapiFlag",
    "ort.session": "append_execution_provider get_ep_name get_ep_names get_library_path register",
    "preparation.batch": "prepare",
    "provider.devices": "devices",
    "provider.receipt": "receipts",
    "report.report": "Report",
    "rewriting.fix": "fix",
    "tuning.tune": "tune",
}
"""Public names by the module that has them."""

_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    """Import and return a public name on first use (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version  # imports a mail parser

        return version("ep-nnapi")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ep_nnapi.installed import explained  # imports the errors

    with paused_collection(), explained():
        module = import_module(f"{__name__}.{_HOME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
