"""ONNX's backend tests of nodes, and of small models that ONNX keeps as files.

A node's test is a case as it is, and again with its later inputs as initializers.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

STORED = ("pytorch-converted", "pytorch-operator", "simple")
FIRST_IR_OF_PLAIN_INITIALIZERS = 4  # older models must list initializers among the inputs


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
