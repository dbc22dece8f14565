"""The conformance cases beside this repository as models; absent folders give no cases."""

import importlib.util
import json
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.runtime import Device, RunOptions, Runtime

FOLDER = Path(__file__).parents[2].parent / "shared" / "nnapi_conformance"


@cache
def _reader():
    found = importlib.util.spec_from_file_location("nnapi_cases", FOLDER / "cases.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def cases(**choice):
    """Cases whose folder is there; `choice` as cases.py has it."""
    return list(_reader().cases(FOLDER / "open", **choice)) if FOLDER.exists() else []


def folder_cases():
    """For each spec file, by name, what reads its cases."""
    index = FOLDER / "open" / "index.json"
    if not index.exists():
        return {}
    files = [entry["file"] for entry in json.loads(index.read_text())["specs"]]
    return {file: partial(_file_cases, file) for file in files}


def _file_cases(file):
    reader = _reader()
    with np.load(FOLDER / "open" / file) as arrays:
        header, blob = json.loads(arrays["json"].tobytes()), arrays["data"].tobytes()
    return [reader.Case(record, header, blob) for record in header["cases"]]


def model(case, graph=None, *, dynamic=False, without_omitted=False) -> Model:
    """A case's model; `dynamic`: all output dimensions are unknown.

    without_omitted   inputs that the case omits are left out of the model
    """
    graph = graph or case.main
    operands = [_operand(case, o) for o in graph.operands]
    inputs = [*graph.inputs]
    if without_omitted:
        for i in (i for i in graph.inputs if graph.operands[i].omitted):
            operands[i] = replace(operands[i], value=Omitted.NO_VALUE)
            inputs.remove(i)
    if dynamic:
        for i in graph.outputs:
            unknown = tuple(0 for _ in operands[i].dimensions)
            operands[i] = Operand(
                operands[i].type, unknown, operands[i].scale, operands[i].zero_point
            )
    operations = [
        Operation(spec.BY_CODE[o.code], tuple(o.inputs), tuple(o.outputs)) for o in graph.operations
    ]
    return Model(
        tuple(operands), tuple(operations), tuple(inputs), tuple(graph.outputs), case.relaxed
    )


def _operand(case, o) -> Operand:
    code = OperandCode(o.code)
    channels = None
    if o.channel_scales is not None:
        channels = ChannelQuantization(o.channel_dim, tuple(o.channel_scales))
    value = None
    if o.life in ("const", "constref"):
        value = Data.of(np.array(o.value, code.numpy))
    elif o.life == "none":
        value = Omitted.NO_VALUE
    elif o.life == "subgraph":
        value = model(case, case.referenced[o.subgraph])
    dims = () if o.scalar else tuple(o.dims)
    return Operand(code, dims, o.scale, o.zero_point, channels, value)


def inputs(case) -> list[np.ndarray | None]:
    """Inputs of the case, in the model's order."""
    return [
        None if o.omitted else np.ascontiguousarray(o.value.astype(OperandCode(o.code).numpy))
        for o in (case.main.operands[i] for i in case.main.inputs)
    ]


def check(case, results) -> list[str]:
    """Errors of results; booleans are compared as the bytes that a case holds."""
    stored = [r.astype(np.uint8) if r.dtype == np.bool_ else r for r in results]
    return case.check(stored)


def failures(asked, runtime: Runtime, device: Device, *, dynamic: bool) -> dict[str, list[str]]:
    """Errors of the cases that do not end as they should; `dynamic` as of `model`."""
    wrong = {}
    for case in asked:
        if dynamic and (case.expect_failure or case.ops & {"RANK", "IF", "WHILE"}):
            continue
        if found := _outcome(case, runtime, device, dynamic):
            wrong[case.name] = found
    return wrong


def _outcome(case, runtime: Runtime, device: Device, dynamic: bool) -> list[str]:
    try:
        results = runtime.compile(model(case, dynamic=dynamic), device).run(inputs(case))
    except (SpecError, RuntimeFailure) as error:
        timely = not case.timeout_test or "MISSED_DEADLINE" in str(error)
        return [] if case.expect_failure and timely else [str(error)]
    return ["it should fail"] if case.expect_failure else check(case, results)


def data_type(case) -> str:
    found = {operand.type for operand in model(case).operands}
    if OperandCode.TENSOR_FLOAT16 in found:
        return "float16"
    if any(code.name.startswith("TENSOR_QUANT8") for code in found):
        return "quant8"
    return "float32" if OperandCode.TENSOR_FLOAT32 in found else "other"


@dataclass(frozen=True)
class Examined:
    """A device of a runtime; cases that must be refused have no answer."""

    runtime: Runtime
    device: Device
    options: RunOptions = field(default_factory=RunOptions)
    without_omitted: bool = False

    def model(self, case) -> Model:
        return model(case, without_omitted=self.without_omitted)

    def takes(self, case) -> bool:
        """True if the device takes every operation."""
        supported = self.runtime.supported
        return not case.expect_failure and all(supported(self.model(case), self.device))

    def share(self, asked) -> float:
        """How many of the cases it takes."""
        every = [case for case in asked if not case.expect_failure]
        return sum(map(self.takes, every)) / len(every)

    def assert_right(self, asked) -> float:
        """It computes what it takes, and returns the share of that."""
        every = [case for case in asked if not case.expect_failure]
        found = [(case.name, self._wrong(case)) for case in every if self.takes(case)]
        assert not [(name, what) for name, what in found if what]
        return len(found) / max(1, len(every))

    def _wrong(self, case) -> list[str]:
        given = [a for a in inputs(case) if a is not None or not self.without_omitted]
        try:
            compiled = self.runtime.compile(self.model(case), self.device)
            return check(case, compiled.run(given, (), self.options))
        except RuntimeFailure as error:
            return [str(error)]
