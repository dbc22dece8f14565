"""Assertions of operator tests: a node matches the reference, is accepted or rejected.

`node(op_type, *inputs, **attributes)` makes a one-node model: `f32(2, 3)` and the like are fed
at run time, numpy arrays are initializers, None is an input left out. `matches` lowers it by
the very path of the provider, runs it on the reference device and compares with ONNX's reference
evaluator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.dag import inputs_of
from ep_nnapi.lowering.model_builder import Lowered, lower
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.host.kernel import named_operations
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.operators import VARIANTS, operations
from ep_nnapi.options.target import NnapiFlag, Target
from ep_nnapi.ort_devices.to_onnx import FEATURE_LEVEL, operand_dims
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests import calls
from tests.nnapi.kernel_rules import violations
from tests.onnx_graph import graph_of

FL = {level: Target(level) for level in range(1, 9)}
"""Targets by feature level."""

NCHW3 = Target(3, NnapiFlag.USE_NCHW)


@dataclass(frozen=True)
class Fed:
    """A run-time input: its type and shape, and the numbers to feed (drawn when None)."""

    dtype: int
    shape: tuple[int | str, ...]
    low: float = -2.0
    high: float = 2.0

    @property
    def numpy(self) -> np.dtype:
        return helper.tensor_dtype_to_np_dtype(self.dtype)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Numbers of that type, evenly spread over [low, high)."""
        to = self.numpy
        shape = [d if isinstance(d, int) else 1 for d in self.shape]
        if to == np.bool_:
            return rng.random(shape) < 0.5
        numbers = rng.uniform(self.low, self.high, shape)
        return np.asarray(np.rint(numbers) if np.issubdtype(to, np.integer) else numbers).astype(to)


def f32(*shape: int | str, low: float = -2.0, high: float = 2.0) -> Fed:
    return Fed(TensorProto.FLOAT, shape, low, high)


def f16(*shape: int | str, low: float = -2.0, high: float = 2.0) -> Fed:
    return Fed(TensorProto.FLOAT16, shape, low, high)


def i32(*shape: int | str, low: float = -9, high: float = 9) -> Fed:
    return Fed(TensorProto.INT32, shape, low, high)


def i64(*shape: int | str, low: float = -9, high: float = 9) -> Fed:
    return Fed(TensorProto.INT64, shape, low, high)


def f64(*shape: int | str) -> Fed:
    return Fed(TensorProto.DOUBLE, shape)


def boolean(*shape: int | str) -> Fed:
    return Fed(TensorProto.BOOL, shape)


def ints(*numbers: int) -> np.ndarray:
    """A constant row of int64: a shape, axes, pads."""
    return np.array(numbers, np.int64)


Given = Fed | np.ndarray | None


@dataclass(frozen=True)
class Case:
    """A model and what its inputs are fed with."""

    model: onnx.ModelProto
    feeds: dict[str, Fed] = field(default_factory=dict)

    def draw(self, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {name: fed.draw(rng) for name, fed in self.feeds.items()}

    def evaluate(self, feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Outputs of ONNX's reference evaluator."""
        return ReferenceEvaluator(self.model).run(None, dict(feeds))


def node(
    op_type: str,
    *given: Given,
    opset: int = 21,
    outputs: int = 1,
    domain: str = "",
    output_types: Sequence[onnx.TypeProto] | None = None,
    **attributes: object,
) -> Case:
    """A model of one node; its outputs' types come from shape inference unless they are given."""
    names = ["" if g is None else f"x{i}" for i, g in enumerate(given)]
    made = helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], "node", domain=domain, **attributes
    )
    return graph([made], dict(zip(names, given, strict=True)), outputs, opset, output_types)


def graph(
    nodes: Sequence[onnx.NodeProto],
    given: dict[str, Given],
    outputs: int = 1,
    opset: int = 21,
    output_types: Sequence[onnx.TypeProto] | None = None,
) -> Case:
    """A model of several nodes with outputs y0, y1 ..."""
    feeds = {name: g for name, g in given.items() if isinstance(g, Fed)}
    constants = [
        numpy_helper.from_array(g, name) for name, g in given.items() if isinstance(g, np.ndarray)
    ]
    inputs = [helper.make_tensor_value_info(n, f.dtype, f.shape) for n, f in feeds.items()]
    outs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)]
    for out, given_type in zip(outs, output_types or (), strict=False):
        out.type.CopyFrom(given_type)
    made = helper.make_graph(list(nodes), "test", inputs, outs, constants)
    opsets = [helper.make_opsetid("", opset)]
    domains = {n.domain for n in nodes if n.domain}
    opsets += [helper.make_opsetid(d, 1) for d in sorted(domains)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=8)
    return Case(_typed(model), feeds)


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its outputs' types filled in by shape inference."""
    return shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)


def verdicts(case: Case, target: Target) -> list[CapableNode | Rejection]:
    return [judge(n, target) for n in graph_of(case.model).nodes]


def accepts(case: Case, target: Target) -> list[CapableNode]:
    """Every node is capable; returns their lowerings."""
    found = verdicts(case, target)
    refused = [v for v in found if isinstance(v, Rejection)]
    assert not refused, refused
    taken = [v for v in found if isinstance(v, CapableNode)]
    for v in taken:
        if (v.node.domain, v.node.op_type) in VARIANTS:  # else a function of ONNX's
            assert {c.spec.name for c in v.calls} <= _known(v.node.domain, v.node.op_type), v
    return taken


@cache
def _known(domain: str, op_type: str) -> set[str]:
    """The operations that `ep-nnapi ops` lists for the operator."""
    return {row.name for o in VARIANTS[domain, op_type] for _, row in operations(o)}


def rejects(case: Case, target: Target, reason: Reason, detail: str) -> None:
    """Some node is refused for that reason, with `detail` in its sentence."""
    refused = [v for v in verdicts(case, target) if isinstance(v, Rejection)]
    assert refused, "every node was accepted"
    assert refused[0].reason is reason, refused[0]
    assert detail in refused[0].detail, refused[0]


def lowered(case: Case, target: Target) -> Lowered:
    """The case's whole graph as one NNAPI model."""
    members = accepts(case, target)
    view = graph_of(case.model)
    written = {o.name for m in members for o in m.node.outputs if o is not None}
    entering = {v.name: v for m in members for v in inputs_of(m.node) if v.name not in written}
    calls = [c for m in members for c in m.calls]
    found = lower(calls, list(entering.values()), list(view.outputs), target)
    assert_consistent(found.model)
    return found


def assert_consistent(model: Model) -> None:
    """What the model says of its sizes is what shape inference gives."""
    assert model.checked
    alone = replace(model, checked=False)
    inferred = operand_dims(alone, named_operations(alone, FEATURE_LEVEL, alone.operands))
    for index, operand in enumerate(model.operands):
        if operand.known:
            assert inferred[index] == operand.dimensions, model


def run(
    case: Case, target: Target, feeds: dict[str, np.ndarray], on: str = REFERENCE_DEVICE
) -> list[np.ndarray]:
    """Outputs of a device for the case; Android's kernels would take the model too."""
    low = lowered(case, target)
    assert not violations(low.model)
    results = calls.run(low, feeds, on)
    return [results[o.name] for o in graph_of(case.model).outputs]


Oracle = Callable[[onnx.ModelProto, Mapping[str, np.ndarray]], Sequence[np.ndarray]]


def evaluated(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    """Outputs of ONNX's reference evaluator."""
    return Case(model).evaluate(feeds)


def on_cpu(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    """Outputs of ONNX Runtime's CPU provider, without graph optimizations."""
    options = exact_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = session_of(model.SerializeToString(), options)
    return session.run(None, dict(feeds))


def matches(
    case: Case,
    target: Target,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    reference: Sequence[np.ndarray] | None = None,
    oracle: Oracle = evaluated,
    feeds: Mapping[str, ArrayLike] | None = None,
    seed: int = 0,
    on: str = REFERENCE_DEVICE,
) -> None:
    """A device computes what ONNX's reference evaluator does (or `reference`).

    oracle   `on_cpu` where the evaluator is wrong or lacks the operator
    feeds    inputs that are not drawn
    on       the device
    """
    given = {name: np.asarray(a, case.feeds[name].numpy) for name, a in (feeds or {}).items()}
    feeds = case.draw(seed) | given
    want = reference or oracle(case.model, feeds)
    for got, expected in zip(run(case, target, feeds, on), want, strict=True):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, atol=atol, rtol=rtol)


def emitted(case: Case, target: Target) -> list[str]:
    """The names of the NNAPI operations of the whole graph, in order."""
    return [op.spec.name for op in lowered(case, target).model.operations]


def at(target: Target, flags: NnapiFlag) -> Target:
    return replace(target, flags=flags)
