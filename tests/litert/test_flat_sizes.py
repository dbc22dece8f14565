"""Models of open sizes, written once: resized, they compute what those of numbers do."""

from collections.abc import Sequence
from importlib import import_module

import numpy as np
import pytest

from ep_nnapi.litert.to_tflite import convert
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import F32, I32
from ep_nnapi.ort_devices.graph import Inexpressible
from tests.litert.needs import LITERT
from tests.litert.test_to_tflite import reference
from tests.ort_devices import test_open_sizes as open_sizes
from tests.ort_devices.networks import Network

pytestmark = LITERT
CASES = open_sizes.CASES


class Resized:
    """A flatbuffer in LiteRT's interpreter, whose inputs are resized for each run."""

    def __init__(self, model: Model) -> None:
        module = import_module("ai_edge_litert.interpreter")
        self.interpreter = module.Interpreter(model_content=bytes(convert(model)))

    def execute(self, inputs: Sequence[Array], outputs: Arrays, options: RunOptions) -> list[Array]:
        """The results, whose sizes are known before the run."""
        runner = self.interpreter
        places = {d["name"]: d["index"] for d in runner.get_input_details()}
        for n, array in enumerate(inputs):
            runner.resize_tensor_input(places[f"i{n}"], array.shape, strict=True)
        runner.allocate_tensors()
        known = {d["index"]: tuple(d["shape"]) for d in runner.get_output_details()}
        for n, array in enumerate(inputs):
            runner.set_tensor(places[f"i{n}"], array)
        runner.invoke()
        found = {index: runner.get_tensor(index) for index in known}
        assert {index: array.shape for index, array in found.items()} == known
        return [*found.values()]


def session(model: Model) -> Resized | None:
    try:
        return Resized(model)
    except (Inexpressible, NnapiError):
        return None


def is_short(file: str) -> bool:
    return open_sizes.is_short(file) or file in ("V1_0/conv_float.npz", "V1_1/mean.npz")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(f, marks=() if is_short(f) else pytest.mark.long)
        for f in sorted(open_sizes.CASES)
    ],
)
def test_a_case_written_once_computes_other_sizes(file: str) -> None:
    rng = np.random.default_rng(1)
    wrong = [
        (case.name, values)
        for case in CASES[file]()
        if not case.expect_failure
        for values in open_sizes.differences(open_sizes.conformance.model(case), rng, session)
    ]
    assert not wrong


def heads(trace: Trace, *, crop: int = 0) -> Model:
    """x [b, s, 6] as [b, 2, s, 3], less the first s rows of a table, or `crop` rows fewer."""
    net = Network()
    b, s = trace.size("b", 3), trace.size("s", 4)
    x = net.add(Operand(F32, (b, s, 6)))
    shape = Operand(I32, (4,), value=Data.of_sizes([b, s, 2, 3], np.dtype(np.int32)))
    split = net.operation(spec.RESHAPE, [x, shape], Operand(F32, (b, s, 2, 3)))
    perm = np.array([0, 2, 1, 3])
    y = net.operation(spec.TRANSPOSE, [split, perm], Operand(F32, (b, 2, s, 3)))
    table = net.random.uniform(-1, 1, (20, 3))
    size = Operand(I32, (2,), value=Data.of_sizes([s - crop, 3], np.dtype(np.int32)))
    given = table, np.zeros(2, int), size
    read = net.operation(spec.SLICE, given, Operand(F32, (s - crop, 3)))
    return net.model(net.operation(spec.SUB, [y, read, 0], Operand(F32, (b, 2, s, 3))))


def test_sizes_in_shapes_are_read_from_inputs() -> None:
    """Two open sizes in one shape; one of them says what is read of a table."""
    made = Resized(heads(Trace()))
    for shape in ((3, 4, 6), (1, 9, 6), (5, 1, 6)):
        array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        b, s, _ = shape
        plain = heads(Trace()).bind({"b": b, "s": s})
        (wanted,) = reference(plain, [array])
        np.testing.assert_allclose(made.execute([array], (), RunOptions())[0], wanted, 0, 1e-6)


def test_sizes_that_are_no_products_are_refused() -> None:
    with pytest.raises(Inexpressible, match="LiteRT computes Add of sizes too late"):
        convert(heads(Trace(), crop=1))
