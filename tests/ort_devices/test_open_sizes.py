"""Models whose sizes are expressions, converted once: they compute what those of numbers do."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import NnapiError, RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime, PreparedModel
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import ADD, F32, I32, RESHAPE, TRANSPOSE
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.graph import Inexpressible, OnnxGraph
from ep_nnapi.ort_devices.session import PreparedSession, open_model, threads_of
from tests.nnapi import conformance

CASES = conformance.folder_cases()
SHORT = (
    "V1_0/add.",
    "V1_0/concat_float_1.",
    "V1_0/fully_connected_float.",
    "V1_0/reshape.",
    "V1_0/softmax_float_1.",
    "V1_2/conv2d_dilation.",
)
RUNTIME = HostRuntime((CpuDevice(threads=1), ReferenceDevice()))
CHANGES = ((2, 0), (1, 1), (3, 0), (1, 5), (2, 1))  # of all open sizes: a factor, and what is added
LARGE = 20_000  # elements of an input that no factor makes larger: its operations have small cases


Opener = Callable[[Model], PreparedModel | None]


def is_short(file: str) -> bool:
    return file.startswith(SHORT)


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=() if is_short(f) else pytest.mark.long) for f in sorted(CASES)],
)
def test_a_case_converted_once_computes_other_sizes(file: str) -> None:
    rng = np.random.default_rng(1)
    wrong = [
        (case.name, values)
        for case in CASES[file]()
        if not case.expect_failure
        for values in differences(conformance.model(case), rng)
    ]
    assert not wrong


def session(model: Model) -> PreparedSession | None:
    try:
        return open_model(model, None, threads_of(CompileOptions(threads=1)))
    except (Inexpressible, NnapiError):
        return None


def differences(
    model: Model, rng: np.random.Generator, session: Opener = session
) -> Iterator[dict[str, int]]:
    """Yields sizes for which a model with open sizes computes other results than with numbers.

    session   prepares a model; returns None if it cannot be converted
    """
    trace = Trace()
    open_sizes, symbols = opened(model, trace)
    once = session(open_sizes) if symbols and session(model) is not None else None
    for values in other_sizes(model, symbols, trace) if once is not None else ():
        plain = replace(open_sizes, conditions=()).bind(values)
        given = random_inputs(plain, rng)
        each = session(plain)
        assert each is not None, f"{values} meet the conditions but cannot be converted"
        want, got = (computed(s, given) for s in (each, once))
        if want is not None and not same(want, got):
            yield values


def opened(model: Model, trace: Trace) -> tuple[Model, dict[str, int]]:
    """The model with a symbol for each size of its inputs above 1, and the symbols' values."""
    operands, symbols = list(model.operands), {}
    for computed_one in {i for operation in model.operations for i in operation.outputs}:
        operands[computed_one] = replace(operands[computed_one], dimensions=())
    for n, index in enumerate(model.inputs):
        given = operands[index].dimensions
        names = {axis: f"s{n}_{axis}" for axis, size in enumerate(given) if size > 1}
        symbols |= {name: given[axis] for axis, name in names.items()}
        sizes = [trace.size(names[i], n) if i in names else n for i, n in enumerate(given)]
        operands[index] = replace(operands[index], dimensions=tuple(sizes))
    return replace(model, operands=tuple(operands)), symbols


def other_sizes(model: Model, symbols: dict[str, int], trace: Trace) -> Iterator[dict[str, int]]:
    """Yields other values that meet the conditions."""
    large = any(math.prod(model.operands[i].dimensions) > LARGE for i in model.inputs)
    for factor, more in CHANGES:
        values = {name: factor * size + more for name, size in symbols.items()}
        if all(c.holds(values) for c in trace.conditions) and not (large and factor > 1):
            yield values


def random_inputs(model: Model, rng: np.random.Generator) -> list[Array]:
    operands = (model.operands[i] for i in model.inputs)
    return [
        rng.normal(size=o.dimensions).astype(o.type.numpy)
        if o.type.numpy.kind == "f"
        else rng.integers(0, 2, o.dimensions).astype(o.type.numpy)
        for o in operands
    ]


def computed(prepared: PreparedModel, given: list[Array]) -> list[Array] | None:
    """The results; None if a run of these inputs fails."""
    try:
        return prepared.execute(given, (), RunOptions())
    except Exception:  # an index out of range, say
        return None


def same(want: list[Array], got: list[Array] | None) -> bool:
    return got is not None and all(
        a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(want, got, strict=True)
    )


def flattened(trace: Trace, addend: float = 1) -> Model:
    """[n, m, 2] and transposed [m, n, 2], reshaped to [m, 2 n], plus a constant."""
    n, m = trace.size("n", 5), trace.size("m", 7)
    operands = (
        Operand(F32, (n, m, 2)),
        Operand(I32, (3,), value=Data.of(np.array([1, 0, 2], np.int32))),
        Operand(F32, (m, n, 2)),
        Operand(I32, (2,), value=Data.of_sizes([m, 2 * n], np.dtype(np.int32))),
        Operand(F32, (m, 2 * n)),
        Operand(F32, (1,), value=Data.of(np.array([addend], np.float32))),
        Operand(OperandCode.INT32, value=Data.of(np.array(0, np.int32))),
        Operand(F32, (m, 2 * n)),
    )
    operations = (
        Operation(TRANSPOSE, (0, 1), (2,)),
        Operation(RESHAPE, (2, 3), (4,)),
        Operation(ADD, (4, 5, 6), (7,)),
    )
    return Model(operands, operations, (0,), (7,), conditions=trace.conditions)


@pytest.mark.parametrize("addend", [1.0, 3.0])
@pytest.mark.parametrize(("n", "m"), [(5, 7), (2, 3), (40, 1)])
def test_one_session_computes_every_size_from_the_model_alone(n: int, m: int, addend: float):
    cpu, _ = RUNTIME.devices()
    compiled = RUNTIME.compile(flattened(Trace(), addend), cpu)
    x = np.random.default_rng(0).normal(size=(n, m, 2)).astype(np.float32)
    (got,) = compiled.run([x])
    np.testing.assert_array_equal(got, x.transpose(1, 0, 2).reshape(m, 2 * n) + np.float32(addend))


def test_a_device_for_numbers_refuses_a_model_with_conditions() -> None:
    trace = Trace()
    assert trace.size("n", 5) != 1
    _, reference = RUNTIME.devices()
    with pytest.raises(RuntimeFailure, match="nnapi-reference compiles numbers only"):
        RUNTIME.compile(flattened(trace), reference)


@pytest.mark.parametrize(
    ("source", "wanted", "taken"),
    [
        ("n m 2", "n 2m", [0, -1]),  # copied, and what is left
        ("n m 2", "m n 2", None),  # two sizes are computed
        ("n 8", "n 2 4", [0, 2, 4]),
        ("n m", "2 n m", None),
    ],
)
def test_a_reshape_names_sizes_as_onnx_does_where_it_can(source, wanted, taken):
    trace = Trace()
    symbols = {"n": trace.size("n", 5), "m": trace.size("m", 7)}
    known = {**symbols, "2m": 2 * symbols["m"]}
    sizes, to = ([known.get(t) or int(t) for t in text.split()] for text in (source, wanted))
    graph = OnnxGraph()
    graph.shapes["x"] = tuple(sizes)
    graph.sizes.enter("x", sizes)
    graph.reshape("x", to)
    node = graph.nodes[-1]
    tensors, _ = graph.constants.build({*node.input})
    constants = {t.name: np.frombuffer(t.raw_data, np.int64).tolist() for t in tensors}
    assert constants.get(node.input[1]) == taken
    assert {n.op_type for n in graph.nodes} <= {"Shape", "Concat", "Reshape", "Mul"}
