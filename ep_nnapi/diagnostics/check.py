"""Reports on device placement, from the provider in a real ONNX Runtime session: `check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, Unpack

import onnxruntime

from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.model_sources import ModelSource, loadable
from ep_nnapi.diagnostics.report_sources import with_sources
from ep_nnapi.diagnostics.unknown_names import check_excluded
from ep_nnapi.epcontext.contexts import verify_checksum_of_bytes
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.nnapi.files import digest_of, require_file
from ep_nnapi.nnapi.runtime import Runtime
from ep_nnapi.options.table import OptionKeywords, Options, parse
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.provider import Provider, handed_over
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.cpu import CPU, session_of
from ep_nnapi.sessions.custom_ops import advice, custom_ops

_Level: TypeAlias = onnxruntime.GraphOptimizationLevel


def check(model: ModelSource, **options: Unpack[OptionKeywords]) -> Report:
    """Returns which nodes of `model` run on NNAPI under `options`, and why the others do not.

    model   a path or the bytes of an .onnx or .ort file, an onnx.ModelProto, or the result of
            torch.onnx.export
    Creates a stock ONNX Runtime session without running it, so placement is as in real sessions
    with partitioning maximal; a note names what sessions leave without it.
    Raises ModelError (missing, unreadable or invalid model) and OptionError.
    """
    model = source(model)
    report = with_sources(partitioned(model, **options).report, model)
    return replace(report, digest=digest_of(model))


def partitioned(model: ModelSource, **options: object) -> Provider:
    """Returns the provider after it has partitioned `model`; raises as `check`."""
    return _checked(model, options, fast=True)


def lowered(model: ModelSource, **options: object) -> Provider:
    """Returns the same with clusters that are lowered for no device of the host in particular."""
    return _checked(model, options, fast=False)


def _checked(model: ModelSource, options: Mapping[str, object], *, fast: bool) -> Provider:
    with (
        custom_ops(parse(options).custom_ops_library),
        fixed_model(source(model), options) as (static, rest),
    ):
        chosen = parse(rest)
        if chosen.receipt is not None:
            raise OptionError(
                "nothing runs here, so there is no receipt; give the option to run, compare, tune "
                "or a session"
            )
        provider = partitioned_at(static, chosen, _Level.ORT_ENABLE_BASIC, fast=fast)
    check_excluded(chosen, provider.report)
    return provider


def partitioned_at(
    model: str | bytes,
    options: Options,
    level: _Level,
    runtime: Runtime | None = None,
    *,
    fast: bool = False,
) -> Provider:
    """Returns the provider after it has partitioned `model`, which ORT optimizes at `level`.

    The partition is maximal, unless the options choose another one.

    runtime   replaces the runtime of the options
    fast      use a session's devices; without it clusters are lowered for no device of the host in
              particular, as in files that are written for others
    """
    shown = replace(options, partitioning=options.partitioning.whole)
    with provider_of_session(shown, runtime, fast=fast) as (strings, found):
        _partition(model, strings, level)
        return found()


@contextmanager
def provider_of_session(
    options: Options, runtime: Runtime | None = None, *, fast: bool = True
) -> Iterator[tuple[dict[str, str], Callable[[], Provider]]]:
    """Yields as `given_to_session`, for a provider with these options.

    fast   as for `Provider`
    Raises OptionError for invalid options.
    """
    with given_to_session(Provider(options, runtime, fast=fast, measure=True)) as given:
        yield given


@contextmanager
def given_to_session(provider: Provider) -> Iterator[tuple[dict[str, str], Callable[[], Provider]]]:
    """Yields option strings for one session, and a function that returns the session's provider.

    That function raises the provider's error, which ONNX Runtime would only print before it
    continues without NNAPI.
    """

    def found() -> Provider:
        if isinstance(provider.error, NnapiError):
            raise provider.error
        if provider.error is not None:
            raise NnapiError(f"planning failed: {provider.error!r}") from provider.error
        if not provider.opened:
            raise NnapiError(f"ONNX Runtime made no session with {EP_NAME}; it says why on stderr")
        return provider

    with handed_over(provider) as strings:
        yield strings, found


def source(model: ModelSource) -> str | bytes:
    """Returns bytes, or the path of an existing, non-empty file; raises ModelError otherwise."""
    model = loadable(model)
    if isinstance(model, bytes):
        if not model:
            raise ModelError("the model is empty: 0 bytes")
        verify_checksum_of_bytes(model)
        return model
    require_file(Path(model))
    return str(Path(model))


def quiet_options() -> onnxruntime.SessionOptions:
    """Returns session options that log only fatal errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def open_session(
    model: str | bytes,
    options: onnxruntime.SessionOptions,
    providers: list[object],
    without: Sequence[str] = (),
) -> onnxruntime.InferenceSession:
    """Returns a stock session; raises ModelError if the model cannot be loaded.

    without   names of ONNX Runtime's optimizers to disable
    """
    called = "the model" if isinstance(model, bytes) else model
    try:
        session = session_of(model, options, providers, without)
    except OptionError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        said = first_line(error) + advice(str(error))
        raise ModelError(f"{called}: ONNX Runtime cannot load it: {said}") from None
    _check_names(session, called)
    return session


def _check_names(session: onnxruntime.InferenceSession, called: str) -> None:
    """Raises ModelError if Python cannot read the names of inputs, outputs and their sizes."""
    try:
        for value in (*session.get_inputs(), *session.get_outputs()):
            _ = value.name, value.shape
    except UnicodeDecodeError as error:
        raise ModelError(f"{called}: the name {error.object!r} is not UTF-8; rename it") from None


def first_line(error: Exception) -> str:
    """Returns the first line of an ONNX Runtime error, without error codes and source locations."""
    return str(error).strip().split("\n", maxsplit=1)[0].split(" : ", 2)[-1]


def _partition(model: str | bytes, strings: dict[str, str], level: _Level) -> None:
    """Creates a session that partitions the model, with as little other work as possible.

    Only basic optimizations run before partitioning; later steps are disabled where possible.
    Saving in ORT format would skip compilation, but writes a file and is limited to 2 GB.
    """
    register()
    options = quiet_options()
    options.graph_optimization_level = level
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = 1  # nothing runs, so neither threads nor an arena are needed
    options.enable_cpu_mem_arena = False
    open_session(model, options, [(EP_NAME, strings), CPU])
