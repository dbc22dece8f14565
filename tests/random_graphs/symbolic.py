"""Drawn graphs with symbols for their sizes: lowered once, and anew for other sizes; run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx
from onnx.shape_inference import InferenceError

from ep_nnapi.graph.graph import Graph
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_backend.trial import provider_session, quiet
from tests.onnx_graph import graph_of
from tests.random_graphs.trial import Subject, assert_same, draw, moved_feeds

RUNTIME = HostRuntime()
COMPILER = Compiler(Target(8), RUNTIME, RUNTIME.devices()[0])
BINDINGS, TRIES, MOST = 6, 40, 12


def with_symbols(model: onnx.ModelProto) -> dict[str, int]:
    """Names the sizes of the inputs, equal ones alike; returns them. Outputs have no shape then."""
    found: dict[str, int] = {}
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value > 1:
                name = f"s{dim.dim_value}"
                found[name] = dim.dim_value
                dim.dim_param = name
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return found


def lowered(graph: Graph, sizes: Mapping[str, int], *, traced: bool) -> Lowered:
    """The graph as one cluster, for inputs with these sizes or for all that are like them."""
    shapes = {v.name: tuple(sizes.get(str(d), d) for d in v.dims or ()) for v in graph.inputs}
    return (COMPILER.lower_traced if traced else COMPILER.lower_for_shapes)(graph, shapes)


def attempt(seed: int) -> Counter[str]:
    """Counts what became of the graph of a seed; raises AssertionError if a size is wrong."""
    model = draw(seed).model
    symbols = with_symbols(model)
    if {v.name for v in model.graph.output} & {v.name for v in model.graph.input}:
        return Counter(("not capable",))  # an output that no node computes
    try:
        graph = graph_of(model)
    except InferenceError:  # an operator without a type where a symbol is a size
        return Counter(("not capable",))

    try:
        once = lowered(graph, symbols, traced=False)
    except Declined:
        return Counter(("not capable",))
    try:
        traced = lowered(graph, symbols, traced=True)
    except Declined as declined:
        return Counter(("these sizes alone" if "alone" in declined.detail else declined.detail,))
    rng, found = random.Random(seed), Counter[str](("traced",))
    assert_equal(traced.bind(symbols), once, seed)
    for _ in range(TRIES):
        other = {name: rng.randint(2, MOST) for name in symbols}
        if all(c.holds(other) for c in traced.model.conditions):
            assert_equal(traced.bind(other), lowered(graph, other, traced=False), seed)
            found["bindings"] += 1
            if found["bindings"] == BINDINGS:
                break
    return found


def attempt_runs(seed: int) -> Counter[str]:
    """Counts the sizes that a session computes as the CPU provider does; raises if it does not.

    Left out are graphs and sizes that the CPU provider refuses: the model contradicts them.
    """
    subject = draw(seed)
    symbols = with_symbols(subject.model)
    content, rng, found = subject.model.SerializeToString(), random.Random(seed), Counter[str]()
    others = [{name: rng.randint(2, MOST) for name in symbols} for _ in range(TRIES)]
    try:
        cpu = session_of(content, quiet())
    except Exception:  # whatever ONNX Runtime raises
        return found
    ours, provider = provider_session(content, quiet(), subject.options)
    found["nodes"] += provider.report.taken
    for sizes in (symbols, *others):
        feeds = _resized(subject, sizes)
        try:
            want, *moved = (
                cpu.run(None, given) for given in (feeds, *moved_feeds(feeds, subject.half, 2))
            )
        except Exception:
            continue
        assert_same(ours.run(None, feeds), want, moved, subject)
        found["runs"] += 1
        if found["runs"] == BINDINGS or not symbols:
            break
    return found


def _resized(subject: Subject, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Its inputs with these sizes, their numbers cut or repeated."""
    shapes = {
        value.name: [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        for value in subject.model.graph.input
    }
    return {name: np.resize(array, shapes[name]) for name, array in subject.feeds.items()}


def assert_equal(one: Lowered, other: Lowered, seed: int) -> None:
    """Equal models, or equal results: what is filled at run time may be a constant elsewhere."""
    if not difference(one, other):
        return
    results = [_computed(low, seed) for low in (one, other)]
    for name, values in results[0].items():
        np.testing.assert_allclose(values, results[1][name], rtol=1e-5, err_msg=f"seed {seed}")


def _fed(crossing: Crossing, seed: int) -> np.ndarray:
    """Numbers that are alike for one name; integers are 0, as indexes of any size may be."""
    most = 1 if crossing.dtype in (DType.INT32, DType.INT64) else 2
    rng = np.random.default_rng([seed, *crossing.name.encode()])
    return rng.integers(0, most, crossing.shape).astype(crossing.dtype.numpy)


def _computed(low: Lowered, seed: int) -> dict[str, np.ndarray]:
    compiled = COMPILER.compile(low)
    ins = {c.name: c for c in low.border.inputs}  # of which some may be there for their sizes only
    feeds = [_fed(crossing, seed) for crossing in ins.values()]
    outs = {c.name: np.empty(c.shape, c.dtype.numpy) for c in low.border.outputs}
    border, allocated = low.border.bind([*ins], [*outs]), [*outs.values()]
    border.run(compiled.compilation, feeds, lambda i, _: allocated[i], RunOptions())
    return outs


def difference(one: Lowered, other: Lowered) -> str:
    """The first difference of two clusters without symbols; "" if there is none.

    Equal constants may be one operand or several: two sizes may be equal by chance.
    """
    a, b = one.model, other.model
    if len(a.operations) != len(b.operations):
        return f"{len(a.operations)} and {len(b.operations)} operations"
    if one.border != other.border or len(a.inputs) != len(b.inputs):
        return "their inputs or outputs"
    same = dict(zip(a.inputs, b.inputs, strict=True))
    for i, (mine, others) in enumerate(zip(a.operations, b.operations, strict=True)):
        pairs = [*zip(mine.inputs, others.inputs, strict=False)]
        pairs += zip(mine.outputs, others.outputs, strict=False)
        if mine.spec != others.spec or len(mine.inputs) != len(others.inputs):
            return f"operation {i} is {mine.spec} and {others.spec}"
        for x, y in pairs:
            left, right = a.operands[x], b.operands[y]
            if left != right or (left.value is None and same.setdefault(x, y) != y):
                return f"operation {i}, {mine.spec} of {mine.origin}, has {left} and {right}"
    outputs = [same.get(i) for i in a.outputs] == [*b.outputs]
    return "" if outputs and a.relaxed == b.relaxed else "their outputs"
