"""Trial of one untrusted model: it is refused in a sentence, or computed."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
from onnx import ModelProto
from onnx.utils import Extractor

import ep_nnapi
from ep_nnapi.nnapi.errors import ModelError, NnapiError
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_backend.trial import provider_session, quiet

MEMORY = 6 << 30
"""Address space of a worker: what asks for more gets an error in both providers."""
MOST_ELEMENTS = 1 << 24
_OF_ONNXRUNTIME = "dilations for operator QLinearAveragePool"
"""An error of ONNX Runtime 1.32, which fuses quantized AveragePools whatever their dilations.

Its CPU provider alone does so too, except before a DequantizeLinear if a zero point is left out.
"""
LOGGER = logging.getLogger("ep_nnapi")
Feeds = Mapping[str, np.ndarray]
Made = tuple[bytes, Feeds, Mapping[str, object]]
"""A model, what to feed it, and options of the provider."""


class Ended(StrEnum):
    """Outcome of a trial; the last five are faults."""

    REFUSED = "refused"
    COMPUTED = "computed"
    CPU_DIED = "ended onnxruntime's own session too"
    DIFFERS = "computed with other results than the CPU provider's"
    WORSE = "computed by the CPU provider only"
    LOGGED = "a defect of ep-nnapi that it logged and worked around"
    DEFECT = "an error that nobody expected"
    DIED = "ended the process"


FAULTS = {Ended.DIFFERS, Ended.WORSE, Ended.LOGGED, Ended.DEFECT, Ended.DIED}


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome and message of a trial."""

    ended: Ended
    detail: str = ""


def limit_memory() -> None:
    """Of this process, once and for all that follows."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def line(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"


def judged(model: bytes, feeds: Feeds, options: Mapping[str, object]) -> Result:
    """Outcome of a model: a session must answer where the CPU provider does, node by node too.

    Some invalid models are computed there only because ONNX Runtime does not look at what is
    invalid, as it does as soon as a provider compiles nodes.
    """
    computed = on_cpu(model, feeds) is None
    result = on_nnapi(model, feeds, options)
    if result.ended is not Ended.REFUSED or not computed or _OF_ONNXRUNTIME in result.detail:
        return result
    return Result(Ended.WORSE if _valid(model, feeds) else Ended.REFUSED, result.detail)


def attempt(made: Callable[[int], Made], seed: int) -> Result:
    """A session must answer where the CPU provider does; nothing may end the process."""
    limit_memory()
    return judged(*made(seed))


def alone(made: Callable[[int], Made], seed: int) -> Result:
    """The same model without ours."""
    limit_memory()
    return alone_of(*made(seed)[:2])


def _valid(model: bytes, feeds: Feeds) -> bool:
    """False if a fusion hides what is invalid, or a wrong declaration, or if a fusion makes it so.

    A fusion may overlook an operand that is left out. ONNX Runtime 1.32 lets ReduceMin and
    ReduceMax of old opsets compute on the integers of a QDQ group, for which they have no type.
    """
    return (
        on_cpu(model, feeds, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL) is None
        and on_cpu(_without_declarations(model), feeds) is None
        and _survives_optimization(model)
    )


def _survives_optimization(model: bytes) -> bool:
    """True if ONNX Runtime loads what it makes of the model, int8 left as it is."""
    with TemporaryDirectory() as folder, suppress(Exception):
        options = quiet()
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        session_of(model, options)
        session_of(options.optimized_model_filepath, quiet())
        return True
    return False


def _without_declarations(model: bytes) -> bytes:
    """The model without the shapes that it declares of what its nodes compute."""
    found = ModelProto.FromString(model)
    del found.graph.value_info[:]
    for value in found.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return found.SerializeToString()


def on_cpu(
    model: bytes,
    feeds: Feeds,
    level: onnxruntime.GraphOptimizationLevel = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> str | None:
    """Reason why the CPU provider cannot run the model; None: it can."""
    try:
        options = quiet()
        options.graph_optimization_level = level
        session = session_of(model, options)
        session.run(None, _fitting(session, feeds))
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        return line(error)
    return None


def alone_of(model: bytes, feeds: Feeds) -> Result:
    """The model on the CPU provider; if it is refused for a node, what leads to each value."""
    refused = on_cpu(model, feeds)
    for part in _parts(model) if refused else ():
        on_cpu(part, feeds)
    return Result(Ended.REFUSED, refused or "")


def _parts(model: bytes) -> Iterator[bytes]:
    """What computes one value of a model, for each value of which that can be extracted."""
    with suppress(Exception):  # of a damaged model
        whole = ModelProto.FromString(model)
        inputs = [value.name for value in whole.graph.input]
        for name in dict.fromkeys(name for node in whole.graph.node for name in node.output):
            with suppress(Exception):
                yield Extractor(whole).extract_model(inputs, [name]).SerializeToString()


class _Errors(logging.Handler):
    """The first error that ep_nnapi logs in its context."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first = ""

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info and record.exc_info[1]
        self.first = self.first or record.getMessage() + (f": {line(cause)}" if cause else "")

    def __enter__(self) -> _Errors:
        LOGGER.addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        LOGGER.removeHandler(self)


def on_nnapi(model: bytes | str, feeds: Feeds, options: Mapping[str, object]) -> Result:
    """Results of `check` and a session; a logged error is a fault whatever they return."""
    with _Errors() as logged:
        result = _on_nnapi(model, feeds, options)
    if logged.first and result.ended not in FAULTS:
        return Result(Ended.LOGGED, logged.first)
    return result


def _on_nnapi(model: bytes | str, feeds: Feeds, options: Mapping[str, object]) -> Result:
    try:
        ep_nnapi.check(model, **options)
    except NnapiError as error:
        return _refusal(error)
    except Exception as error:
        return Result(Ended.DEFECT, line(error))
    try:
        session, _ = provider_session(model, quiet(), options)
        session.run(None, _fitting(session, feeds))
    except Exception as error:
        return Result(Ended.REFUSED, line(error))
    return Result(Ended.COMPUTED)


def _refusal(error: NnapiError) -> Result:
    """ModelError in one line is an answer; anything else is not."""
    answers = isinstance(error, ModelError) and "\n" not in str(error)
    return Result(Ended.REFUSED if answers else Ended.DEFECT, line(error))


def _fitting(session: onnxruntime.InferenceSession, feeds: Feeds) -> dict[str, np.ndarray]:
    """The feeds that the session asks for, and zeros for others; sizes that are open are 1."""
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(bool)": np.bool_}
    types |= {f"tensor({k})": np.dtype(k) for k in ("int32", "int64", "uint8", "int8", "double")}
    found = {}
    for given in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in given.shape]
        if np.prod(shape, dtype=np.float64) > MOST_ELEMENTS or given.type not in types:
            raise ValueError(f"{given.name} is {given.type} {shape}, too much to feed")
        fed = feeds.get(given.name, np.zeros(shape, types[given.type]))
        found[given.name] = fed if _fits(fed.shape, given.shape) else np.resize(fed, shape)
    return found


def _fits(shape: Sequence[int], declared: Sequence[object]) -> bool:
    """True if an array of the shape may be fed; a declared size that is no number is open."""
    if len(shape) != len(declared):
        return False
    sizes = zip(shape, declared, strict=True)
    return all(size == given for size, given in sizes if isinstance(given, int))
