"""What the provider says of a model, asked through the very session that would run it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import onnxruntime

from ep_nnapi.diagnostics.model_sources import ModelSource, loadable
from ep_nnapi.diagnostics.unknown_names import check_excluded, check_fixed
from ep_nnapi.epcontext.checksum import check_bytes
from ep_nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.options import Options, parse, to_strings
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.provider import COLLECT, Provider, expect, forget
from ep_nnapi.report import Report
from ep_nnapi.sessions.cpu import CPU, session_of
from ep_nnapi.sessions.custom_ops import advice, custom_ops

_Level: TypeAlias = onnxruntime.GraphOptimizationLevel


def check(model: ModelSource, **options: object) -> Report:
    """Which nodes of `model` run on NNAPI under `options`, and why the others do not.

    model   a path or the bytes of an .onnx or .ort file, an onnx.ModelProto, or what
            torch.onnx.export returns
    Asks a stock ONNX Runtime session that runs nothing, so the answer is the provider's.
    Raises ModelError (missing, unreadable or invalid model) and OptionError.
    """
    return planned(model, **options).report


def planned(model: ModelSource, **options: object) -> Provider:
    """The provider after it has planned `model`; raises as `check`."""
    chosen = parse(options)
    with custom_ops(chosen.custom_ops_library):
        provider = planned_at(source(model), chosen, _Level.ORT_ENABLE_BASIC)
    check_excluded(chosen, provider.report)
    return provider


def planned_at(model: str | bytes, options: Options, level: _Level) -> Provider:
    """The provider after it has planned `model` as ONNX Runtime optimizes it at `level`."""
    with collecting(options) as (strings, found):
        session = _plan(model, strings, level)
        provider = found()
    check_fixed(options, inputs_of(session))
    return provider


@contextmanager
def collecting(options: Options) -> Iterator[tuple[dict[str, str], Callable[[], Provider]]]:
    """Option strings for one session, and a function that gives the provider it opened.

    Raises OptionError at once, where ONNX Runtime would print it and go on without NNAPI.
    """
    provider, ticket = Provider(options), uuid.uuid4().hex

    def found() -> Provider:
        if isinstance(provider.error, NnapiError):
            raise provider.error
        if provider.error is not None:
            raise NnapiError(f"planning failed: {provider.error!r}") from provider.error
        if not provider.opened:
            raise NnapiError(f"ONNX Runtime made no session with {EP_NAME}; it says why on stderr")
        return provider

    expect(ticket, provider)
    try:
        yield {**to_strings(replace(options, custom_ops_library=None)), COLLECT: ticket}, found
    finally:
        forget(ticket)


def source(model: ModelSource) -> str | bytes:
    """What ONNX Runtime loads: bytes, or the path of an existing, non-empty file."""
    model = loadable(model)
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes")
        check_bytes(model)
        return model
    path = Path(model)
    if path.is_dir():
        raise ModelError(
            f"{path} is a directory; give one .onnx or .ort file (`prepare` takes directories)"
        )
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise ModelError(f"{path}: the file is empty")
    return str(path)


def quiet_options() -> onnxruntime.SessionOptions:
    """Session options that log only what ends a session."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def open_session(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    providers: list[object],
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """A stock session; raises ModelError in one sentence when the model cannot be loaded.

    without   names of ONNX Runtime's optimizers to leave out
    """
    called = "the model" if isinstance(model, bytes) else model
    try:
        return session_of(model, options, providers, without)
    except OptionError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        said = first_line(error) + advice(str(error))
        raise ModelError(f"{called}: ONNX Runtime cannot load it: {said}") from None


def first_line(error: Exception) -> str:
    """An ONNX Runtime error without its prefix of codes and source lines."""
    return str(error).strip().split("\n", maxsplit=1)[0].split(" : ", 2)[-1]


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a session: `dims` holds a name or None where any size goes."""

    name: str
    type: str
    dims: tuple[int | str | None, ...]


def inputs_of(session: onnxruntime.InferenceSession) -> list[Input]:
    """The inputs of a session, in order."""
    return [Input(i.name, i.type, tuple(i.shape)) for i in session.get_inputs()]


def _plan(
    model: str | bytes, strings: dict[str, str], level: _Level
) -> onnxruntime.InferenceSession:
    """Has ONNX Runtime ask for the plan, with the least work around it.

    At most basic optimization comes before the question; what would come after is turned off.
    Assigning only, as for saving in ORT format, would write a file and end at 2 GB.
    """
    register()
    options = quiet_options()
    options.graph_optimization_level = level
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = 1  # and no arena, since nothing runs
    options.enable_cpu_mem_arena = False
    return open_session(model, options, [(EP_NAME, strings), CPU])
