"""INT64 values with a known range as INT32, which NNAPI has; ranges that the user states."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper

from ep_nnapi.errors import valid_names
from ep_nnapi.graph.onnx_io import open_inputs, opset_of, replace_all
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.rewriting.rewrites import drop_unread, types_of

_INDEXES = {"Gather": "Tind", "GatherElements": "Tind"}
"""Type parameters of index operands: an index is less than a size, so it fits INT32."""
_INT32 = "tensor(int32)"


def int64_as_int32(
    model: ModelProto, names: Collection[str], fits: Collection[str]
) -> ModelProto | None:
    """Returns the model with INT64 operands as INT32; None if no named node can have any.

    fits  names of INT64 values whose elements all fit INT32
    Converts the named nodes and those that read their results, each type parameter of the operator
    by itself, if the operator takes INT32 there too. Inputs and outputs of the model, and operands
    that have to be INT64, stay so: a Cast converts them.
    """
    rewritten = deepcopy(model)
    conversion = _Conversion(rewritten, names, fits)
    nodes = [part for node in model.graph.node for part in conversion.parts(node)]
    if not conversion.results and not conversion.forms:
        return None
    replace_all(rewritten.graph.node, nodes)
    written = {name for node in model.graph.node for name in node.output}
    drop_unread(rewritten, written - conversion.results)
    return rewritten


class _Conversion:
    """Conversion of the nodes in their order; `model` gets the constants.

    forms    by name of an INT64 value, that of its INT32 form
    results  names of those that converted nodes compute
    """

    def __init__(self, model: ModelProto, names: Collection[str], fits: Collection[str]) -> None:
        self.forms: dict[str, str] = {}
        self.results: set[str] = set()
        self._model = model
        self._names = names
        self._fits = fits
        self._types = types_of(model)
        self._constants = {t.name: t for t in model.graph.initializer}

    def parts(self, node: NodeProto) -> Iterator[NodeProto]:
        """Yields the node, converted where possible, between the Casts that it needs."""
        made = deepcopy(node)
        after: list[NodeProto] = []
        if node.name in self._names or not self.results.isdisjoint(node.input):
            for parameter, values in self._int64_values(node).items():
                if self._convertible(node, parameter, values):
                    for place in values[0]:
                        made.input[place] = yield from self._form(node.input[place])
                    after += [self._cast_back(made, place) for place in values[1]]
        yield made
        yield from after

    def _int64_values(self, node: NodeProto) -> dict[str, tuple[list[int], list[int]]]:
        """Returns the positions of INT64 inputs and outputs by type parameter of the operator."""
        schema = _schema(node, self._model)
        found: dict[str, tuple[list[int], list[int]]] = {}
        if schema is None:
            return found
        for side, (names, formal) in enumerate(
            ((node.input, schema.inputs), (node.output, schema.outputs))
        ):
            for place, name in enumerate(names):
                if _is_int64(self._types.get(name)):
                    parameter = formal[min(place, len(formal) - 1)].type_str
                    found.setdefault(parameter, ([], []))[side].append(place)
        return found

    def _convertible(
        self, node: NodeProto, parameter: str, values: tuple[Sequence[int], Sequence[int]]
    ) -> bool:
        """True if the operator takes INT32 for the parameter and all its values fit."""
        schema = _schema(node, self._model)
        constraints = [] if schema is None else schema.type_constraints
        allowed = (c.allowed_type_strs for c in constraints if c.type_param_str == parameter)
        inputs, outputs = values
        if _INT32 not in next(allowed, ()) or not (inputs or node.op_type == "Cast"):
            return False  # what else has outputs alone names their type in an attribute
        known = (*(node.input[i] for i in inputs), *(node.output[i] for i in outputs))
        return _INDEXES.get(node.op_type) == parameter or all(name in self._fits for name in known)

    def _form(self, name: str) -> Generator[NodeProto, None, str]:
        """Returns the name of the value as INT32, after yielding a Cast if there is none yet."""
        if name in self.forms:
            return self.forms[name]
        form = self.forms[name] = f"{name}/int32"
        if name in self._constants:
            array = numpy_helper.to_array(self._constants[name]).astype(np.int32)
            self._model.graph.initializer.append(numpy_helper.from_array(array, form))
        else:
            yield helper.make_node("Cast", [name], [form], form, to=TensorProto.INT32)
        return form

    def _cast_back(self, node: NodeProto, place: int) -> NodeProto:
        """Makes the node write INT32; returns a Cast for readers that need INT64."""
        name = node.output[place]
        form = self.forms[name] = node.output[place] = f"{name}/int32"
        self.results.add(name)
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to":
                attribute.i = TensorProto.INT32
        return helper.make_node("Cast", [form], [name], f"{name}/int64", to=TensorProto.INT64)


def _schema(node: NodeProto, model: ModelProto) -> defs.OpSchema | None:
    try:
        return defs.get_schema(node.op_type, opset_of(model), node.domain)
    except defs.SchemaError:
        return None


def _is_int64(found: TypeProto | None) -> bool:
    return found is not None and found.tensor_type.elem_type == TensorProto.INT64


Interval: TypeAlias = tuple[int, int]
"""The least and the greatest element."""

_LIMITS = np.iinfo(np.int32)
_SEED = 0


def int64_inputs(model: ModelProto) -> list[str]:
    """Returns the names of the inputs that callers give as INT64."""
    inputs = open_inputs(model.graph)
    return [i.name for i in inputs if i.type.tensor_type.elem_type == TensorProto.INT64]


def check_ranges(model: ModelProto, ranges: Mapping[str, Interval]) -> None:
    """Raises OptionError for a range of no INT64 input, an empty one, and one beyond INT32."""
    inputs = int64_inputs(model)
    for name, (low, high) in ranges.items():
        if name not in inputs:
            there = valid_names(name, inputs) if inputs else "none"
            raise OptionError(f"range: the model has no INT64 input {name!r}; it has {there}")
        if not _LIMITS.min <= low <= high <= _LIMITS.max:
            raise OptionError(
                f"range of {name} is {low}:{high}; it must be LOW:HIGH from {_LIMITS.min} to "
                f"{_LIMITS.max}"
            )


def inputs_in_range(
    runs: Sequence[Mapping[str, Array]],
    files: tuple[str, ...],
    ranges: Mapping[str, Interval],
    folder: Path,
) -> tuple[str, ...]:
    """Returns files of inputs whose elements are in the ranges.

    runs   the inputs: those of `files`, or random ones if there are no files
    files  what is returned, unless there are none: then a new file in `folder`
    Raises OptionError if an element of a given input is outside of its range.
    """
    if files:
        for name, (low, high) in observed_ranges(runs).items():
            least, greatest = ranges.get(name, (low, high))
            if low < least or high > greatest:
                raise OptionError(
                    f"the given {name} has elements from {low} to {high}, outside of its range "
                    f"{least}:{greatest}"
                )
        return files
    chance = np.random.default_rng(_SEED)
    inside = {n: chance.integers(*r, runs[0][n].shape, endpoint=True) for n, r in ranges.items()}
    path = folder / "in_range.npz"
    np.savez(path, allow_pickle=False, **{**runs[0], **inside})
    return (str(path),)


def observed_ranges(runs: Sequence[Mapping[str, Array]]) -> dict[str, Interval]:
    """Returns the ranges of the elements of INT64 inputs over all runs; empty inputs have none."""
    found: dict[str, Interval] = {}
    for fed in runs:
        for name, array in fed.items():
            if array.dtype == np.int64 and array.size:
                low, high = found.get(name, (int(array.min()), int(array.max())))
                found[name] = min(low, int(array.min())), max(high, int(array.max()))
    return found
