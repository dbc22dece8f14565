"""Structure of a module's arguments and results: nested containers with tensors as leaves.

`torch.utils._pytree` is what torch.export uses itself for them; it has no public form yet.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from operator import itemgetter
from typing import TypeAlias

import torch
from torch.utils import _pytree as pytree

from ep_nnapi.nnapi.errors import ModelError

REAL_PARTS = "pass real and imaginary parts, by torch.view_as_real and torch.view_as_complex"
"""The way out for complex numbers, which neither NNAPI nor inputs of ONNX Runtime have."""
PythonConstant: TypeAlias = bool | int | float | str | None
_CONSTANTS = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf: the tensor `tensor` of the model, as it is or as a number; or a constant.

    number   the tensor is a size, which the module returns as an int
    """

    tensor: int | None = None
    number: bool = False
    constant: PythonConstant = None

    def value(self, tensors: Sequence[torch.Tensor]) -> object:
        """Returns what the module would return here."""
        if self.tensor is None:
            return self.constant
        found = tensors[self.tensor]
        return int(found) if self.number else found


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a module."""

    spec: pytree.TreeSpec
    leaves: tuple[Leaf, ...]

    def of(self, tensors: Sequence[torch.Tensor]) -> object:
        """Returns the results in the module's own structure, from the model's outputs."""
        return pytree.tree_unflatten([leaf.value(tensors) for leaf in self.leaves], self.spec)

    def builder(self) -> Callable[[Sequence[torch.Tensor]], object]:
        """Returns `of`, or a faster equivalent where all results are tensors without nesting."""
        if any(leaf != Leaf(i) for i, leaf in enumerate(self.leaves)):
            return self.of
        if self.spec.is_leaf():
            return itemgetter(0)
        if self.spec.type in (list, tuple) and all(c.is_leaf() for c in self.spec.children()):
            constructor: Callable[[Sequence[torch.Tensor]], object] = self.spec.type
            return constructor
        return self.of


class ForwardArguments:
    """The arguments of a module's `forward`: which of them are the model's inputs."""

    def __init__(
        self,
        parameters: Sequence[tuple[str, str]],
        spec: pytree.TreeSpec,
        leaves: tuple[Leaf, ...],
    ) -> None:
        """Keeps the structure.

        parameters   names and kinds of the parameters of `forward`
        spec         structure of the dictionary from parameters to values
        """
        self.parameters, self.spec, self.leaves = tuple(parameters), spec, leaves
        self.contiguous = False
        self._signature = inspect.Signature(
            [inspect.Parameter(n, getattr(inspect.Parameter, kind)) for n, kind in parameters]
        )
        positional = {"POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"}
        given = list(spec.context)
        flat = all(child.is_leaf() for child in spec.children()) and all(
            leaf.tensor is not None for leaf in leaves
        )
        names = [name for name, kind in parameters if kind in positional]
        self._count = len(given) if flat and given == names[: len(given)] else None

    @classmethod
    def of_call(
        cls,
        forward: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> ForwardArguments:
        """Returns the structure of a call of `forward`; raises ModelError if it takes others."""
        signature = inspect.signature(forward)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ModelError(f"example_inputs do not fit the module's forward: {error}") from None
        values, spec = flatten(dict(bound.arguments))
        parameters = [(p.name, p.kind.name) for p in signature.parameters.values()]
        return cls(parameters, spec, leaves_of(values, "example_inputs")[0])

    def require_contiguous(self) -> None:
        """Has `tensors` refuse others than contiguous ones: the results depend on their strides."""
        self.contiguous, self._count = True, None

    def tensors(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Sequence[torch.Tensor]:
        """Returns the model's inputs; raises ModelError if the call is not like the example."""
        simple = len(args) == self._count and not kwargs
        if simple and all(isinstance(a, torch.Tensor) for a in args):
            return args
        try:
            bound = self._signature.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise ModelError(f"the module was not converted for this call: {error}") from None
        try:
            values = self.spec.flatten_up_to(dict(bound.arguments))
        except ValueError as error:
            raise ModelError(
                f"the module was not converted for these arguments: {str(error).rstrip('.')}"
            ) from None
        return [v for v, leaf in zip(values, self.leaves, strict=True) if self._is_input(v, leaf)]

    def _is_input(self, value: object, leaf: Leaf) -> bool:
        if leaf.tensor is not None:
            if not isinstance(value, torch.Tensor):
                given = repr(value) if isinstance(value, _CONSTANTS) else type(value).__name__
                raise ModelError(f"{given} is given where the example had a tensor")
            if self.contiguous and not value.is_contiguous():
                raise ModelError(
                    f"a tensor has strides of {value.stride()}, and the module reads memory by "
                    "as_strided; pass its contiguous(), in the example, too"
                )
            return True
        if isinstance(value, torch.Tensor) or value != leaf.constant:
            raise ModelError(
                f"the module was converted for the value {leaf.constant!r} and is called with "
                f"{value!r}; convert it for that, too"
            )
        return False


def flatten(value: object) -> tuple[list[object], pytree.TreeSpec]:
    """Returns the leaves of nested containers and their structure; registers dataclasses."""
    while True:
        leaves, spec = pytree.tree_flatten(value)
        unknown = {type(leaf) for leaf in leaves if is_dataclass(leaf)}
        if not unknown:
            return leaves, spec
        for kind in unknown:
            torch.export.register_dataclass(kind, serialized_type_name=type_name(kind))


def type_name(kind: type) -> str:
    """Returns the name under which a dataclass is saved."""
    return f"{kind.__module__}.{kind.__qualname__}"


def leaves_of(values: Iterable[object], where: str) -> tuple[tuple[Leaf, ...], list[object]]:
    """Returns the leaves, and the different tensors and symbolic numbers among the values.

    Raises ModelError for a value that a model can neither take nor return.
    """
    leaves: list[Leaf] = []
    tensors: list[object] = []
    for value in values:
        if isinstance(value, _CONSTANTS):
            leaves.append(Leaf(constant=value))
            continue
        if not isinstance(value, torch.Tensor | torch.SymInt):
            raise ModelError(
                f"{where} have a value of type {type(value).__name__}; tensors, numbers, strings "
                "and None can be, in lists, tuples, dictionaries and dataclasses"
            )
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise ModelError(f"{where} have a complex tensor; {REAL_PARTS}")
        leaves.append(Leaf(len(tensors), isinstance(value, torch.SymInt)))
        tensors.append(value)
    return tuple(leaves), tensors


def to_json(arguments: ForwardArguments, results: Results) -> str:
    """Returns the structures as text, for the metadata of a model."""
    return json.dumps(
        {
            "parameters": arguments.parameters,
            "contiguous": arguments.contiguous,
            "arguments": _spec_to_json(arguments.spec, arguments.leaves),
            "results": _spec_to_json(results.spec, results.leaves),
        }
    )


def _spec_to_json(spec: pytree.TreeSpec, leaves: Iterable[Leaf]) -> dict[str, object]:
    try:
        written = pytree.treespec_dumps(spec)
    except NotImplementedError as error:
        raise ModelError(f"the module cannot be saved: {error}") from None
    return {"spec": written, "leaves": [[x.tensor, x.number, x.constant] for x in leaves]}


def from_json(text: str) -> tuple[ForwardArguments, Results]:
    """Returns the structures from text; raises ModelError if their types are not known here."""
    found = json.loads(text)
    given, results = (_spec_from_json(found[key]) for key in ("arguments", "results"))
    arguments = ForwardArguments([(name, kind) for name, kind in found["parameters"]], *given)
    if found.get("contiguous"):  # absent in files of earlier versions
        arguments.require_contiguous()
    return arguments, Results(*results)


def _spec_from_json(found: Mapping[str, object]) -> tuple[pytree.TreeSpec, tuple[Leaf, ...]]:
    leaves, spec = found["leaves"], found["spec"]
    if not isinstance(leaves, list):
        raise ModelError("the model's metadata are damaged: the leaves are no list")
    try:
        return pytree.treespec_loads(spec), tuple(Leaf(*leaf) for leaf in leaves)
    except NotImplementedError as error:
        raise ModelError(
            f"the module's arguments or results have a type that is not known here ({error}); "
            "import its module, and register a dataclass with torch.export.register_dataclass"
        ) from None
