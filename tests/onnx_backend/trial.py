"""One case on the CPU provider and, where that passes, with the provider in front of it."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.backend.test.runner import Runner

from ep_nnapi.diagnostics.session_runs import open_session
from ep_nnapi.operators import VARIANTS, operations
from ep_nnapi.options.table import parse
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.onnx_backend.workers import Died, spread

# A function's body in half precision has each tensor between its nodes rounded, where the CPU
# provider goes on in float32: four units of half precision instead of the loader's one or two.
ROUNDED_BETWEEN = 2.0**-8


@dataclass(frozen=True)
class Case:
    """One model, what to feed, what must come out and how close."""

    name: str
    model: bytes
    feeds: Mapping[str, Any]
    expected: tuple[Any, ...]
    rtol: float
    atol: float


def load() -> list[Case]:
    """All cases, in ONNX's order; half a minute, as ONNX computes what must come out."""
    return [*node_cases(), *(case for kind in STORED for case in _stored(kind))]


def node_cases() -> list[Case]:
    """The cases of nodes; ten seconds."""
    from onnx.backend.test.loader import load_model_tests

    found: list[Case] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, on overflows that ONNX tests on purpose
        tests = load_model_tests(kind="node")
    for test in tests:
        inputs, outputs = test.data_sets[0]
        names = [i.name for i in test.model.graph.input]
        feeds = {n: _fed(x) for n, x in zip(names, inputs, strict=True)}
        expected = tuple(_fed(y) for y in outputs)
        plain = Case(
            test.name, test.model.SerializeToString(), feeds, expected, test.rtol, test.atol
        )
        found.append(plain)
        found.extend(_with_initializers(plain, test.model))
    return found


def _stored(kind: str) -> Iterator[Case]:
    """The cases of a folder of ONNX's test data: model.onnx, input_N.pb and output_N.pb."""
    from onnx.backend.test.loader import load_model_tests

    for test in sorted(load_model_tests(kind=kind), key=lambda t: t.name):
        folder = Path(test.model_dir)
        model = onnx.load(folder / "model.onnx")
        fixed = {i.name for i in model.graph.initializer}
        given = [i for i in model.graph.input if i.name not in fixed]
        data = folder / "test_data_set_0"
        feeds = {i.name: _read(data / f"input_{n}.pb", i) for n, i in enumerate(given)}
        outputs = enumerate(model.graph.output)
        expected = tuple(_read(data / f"output_{n}.pb", o) for n, o in outputs)
        yield Case(test.name, model.SerializeToString(), feeds, expected, test.rtol, test.atol)


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    if info.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


def _fed(given: Any) -> Any:
    """A tensor as numpy has it; sequences and what is left out stay as they are."""
    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else given


def _with_initializers(plain: Case, original: onnx.ModelProto) -> Iterator[Case]:
    """The case with every tensor but the first input made an initializer, if there is one."""
    model = onnx.ModelProto()
    model.CopyFrom(original)
    fixed = [i for i in list(model.graph.input)[1:] if i.type.HasField("tensor_type")]
    if not fixed:
        return
    for info in fixed:
        array = np.asarray(plain.feeds[info.name])
        tensor = numpy_helper.from_array(array, info.name)
        tensor.data_type = info.type.tensor_type.elem_type
        model.graph.initializer.append(tensor)
        model.graph.input.remove(info)
    model.ir_version = max(model.ir_version, FIRST_IR_OF_PLAIN_INITIALIZERS)
    names = {i.name for i in model.graph.input}
    feeds = {n: x for n, x in plain.feeds.items() if n in names}
    yield Case(
        f"{plain.name} (initializers)",
        model.SerializeToString(),
        feeds,
        plain.expected,
        plain.rtol,
        plain.atol,
    )


class Verdict(StrEnum):
    """Outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    CPU_FAILS = "the CPU provider fails too"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a case at one feature level; what was delegated, or what went wrong."""

    case: str
    level: int
    verdict: Verdict
    delegated: frozenset[tuple[str, str]] = frozenset()
    detail: str = ""


def quiet() -> onnxruntime.SessionOptions:
    """Options for an oracle, with one thread: the models are tiny."""
    options = exact_options()
    options.intra_op_num_threads = 1
    return options


def attempt(case: Case, levels: Sequence[int]) -> list[Outcome]:
    """The case at each feature level; one outcome only when the CPU provider does not pass."""
    try:
        session = session_of(case.model, quiet())
        _compare(case, session.run(None, dict(case.feeds)))
    except Exception as error:  # anything ONNX Runtime or numpy raises
        return [Outcome(case.name, 0, Verdict.CPU_FAILS, detail=_short(error))]
    return [_on_nnapi(case, level) for level in levels]


def _on_nnapi(case: Case, level: int) -> Outcome:
    try:
        session, provider = provider_session(case.model, quiet(), {"feature_level": level})
        _compare(case, session.run(None, dict(case.feeds)))
        require_sound(provider)
        kinds = delegated(onnx.load_from_string(case.model), session, provider)
    except Exception as error:
        return Outcome(case.name, level, Verdict.FAILED, detail=_short(error))
    return Outcome(case.name, level, Verdict.PASSED, frozenset(kinds))


def _compare(case: Case, got: Sequence[Any]) -> None:
    rtol = case.rtol
    if "fp16_expanded" in case.name:
        rtol = max(rtol, ROUNDED_BETWEEN)
    Runner.assert_similar_outputs(list(case.expected), list(got), rtol, case.atol)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


DEFECT = "a defect of ep-nnapi"  # how `capability.judge` ends the refusal of a wrong lowering


class Wrong(Exception):
    """The provider went on, but not as it should."""


def provider_session(
    model: bytes | str, options: onnxruntime.SessionOptions, given: Mapping[str, object]
) -> tuple[onnxruntime.InferenceSession, Provider]:
    """A stock session that lists the provider before the CPU's, and the provider behind it."""
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    provider = Provider(parse({"partitioning": "maximal", **given}), measure=True)
    return open_session(model, options, provider), provider


def require_sound(provider: Provider) -> None:
    """Raises Wrong where a lowering, a model or a device was at fault, though nothing was lost."""
    for refused in provider.report.rejections:
        if DEFECT in refused.detail or "did not compile" in refused.detail:
            raise Wrong(f"{refused.node} ({refused.op_type}): {refused.detail}")
    for failure in provider.failures:
        raise Wrong(str(failure))


def delegated(
    model: onnx.ModelProto, session: onnxruntime.InferenceSession, provider: Provider
) -> set[tuple[str, str]]:
    """(domain, operator) of each node that has an operation of its lowering or definition."""
    kinds = {name: (n.domain, n.op_type) for n in model.graph.node for name in _names(n)}
    for part in session.get_provider_graph_assignment_info():
        kinds.update({n.name: (n.domain, n.op_type) for n in part.get_nodes() if n.name})
    found = set()
    for cluster in provider.clusters:
        for operation in (op for m in cluster.models for op in m.operations):
            for kind in (kinds.get(name) for name in operation.origin):
                variants = VARIANTS.get(kind, ()) if kind else ()
                emitted = {r.name for v in variants for _, r in operations(v)}
                if kind and (not variants or operation.spec.name in emitted):
                    found.add(kind)
    return found


def _names(node: onnx.NodeProto) -> tuple[str, ...]:
    """Names that the provider may give the node."""
    return (node.name or next(o for o in node.output if o),)


STORED = ("pytorch-converted", "pytorch-operator", "simple")
FIRST_IR_OF_PLAIN_INITIALIZERS = 4  # older models must list initializers among the inputs


DELEGATED_AT_LEAST = 131  # operator types of the default domain


@dataclass
class Tally:
    """Outcomes by verdict; the failures in full; the operators delegated anywhere."""

    verdicts: Counter[tuple[int, Verdict]] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    delegated: set[tuple[str, str]] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        self.verdicts[outcome.level, outcome.verdict] += 1
        self.delegated |= outcome.delegated
        if outcome.verdict in (Verdict.FAILED, Verdict.CRASHED):
            self.failures.append(outcome)

    @property
    def operators(self) -> list[str]:
        """The delegated operator types of the default domain."""
        return sorted(op_type for domain, op_type in self.delegated if domain in ("", "ai.onnx"))

    def lines(self) -> Iterator[str]:
        """The tally as a report to print."""
        for o in sorted(self.failures, key=lambda o: (o.case, o.level)):
            yield f"{o.verdict}: {o.case} at level {o.level}: {o.detail}"
        for (level, verdict), count in sorted(self.verdicts.items()):
            yield f"level {level}: {count} {verdict}" if level else f"{count} where {verdict}"
        yield f"{len(self.operators)} operator types delegated: {' '.join(self.operators)}"
        others = sorted(f"{d}:{op}" for d, op in self.delegated if d not in ("", "ai.onnx"))
        if others:
            yield f"and of other domains: {' '.join(others)}"


def run(cases: Sequence[Case], levels: Sequence[int]) -> Tally:
    """All cases in worker processes; a crash is one failed case."""
    tally = Tally()
    for index, result in spread(partial(attempt, levels=tuple(levels)), cases):
        crashed = isinstance(result, Died)
        for outcome in [_crash(cases[index], result)] if crashed else result:
            tally.add(outcome)
    return tally


def _crash(case: Case, died: Died) -> Outcome:
    return Outcome(case.name, 0, Verdict.CRASHED, detail=died.how)
