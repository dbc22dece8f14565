"""Control flow that is decided before a model runs: branches are taken, loops unrolled.

An `If` with a known condition becomes its branch, a `Loop` with a known number of iterations the
nodes of all of them. Known is what follows from constants and from static shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx import shape_inference as inference

from ep_nnapi.graph.onnx_io import graphs, replace_all, static_sizes
from ep_nnapi.nnapi.array import Array
from ep_nnapi.sizes.inference import FOLDABLE

MOST_NODES = 2000
"""Nodes of all iterations up to which a loop is unrolled."""
_MOST_KNOWN = 1024
"""Elements of values that may decide something."""
_AXES_AS_INPUT = 13  # the opset from which on Unsqueeze takes its axes as an input


def decide_control_flow(model: ModelProto) -> None:
    """Replaces decided If and Loop nodes of the main graph, in place, until there are none.

    Names of values stay where they are unique in the model. Nodes in functions of the model and in
    branches that are not decided stay as they are.
    """
    while any(n.op_type in ("If", "Loop") and not n.domain for n in model.graph.node):
        known, before = _known_values(model), [*model.graph.node]
        decided = {n: d for n, node in enumerate(before) if (d := _decided(node, known, model))}
        if not decided:
            return
        replace_all(model.graph.node, [node for n, node in enumerate(before) if n not in decided])
        names, nodes = _Names(model), list[NodeProto]()
        for n, node in enumerate(before):
            nodes += decided[n](node, names, model) if n in decided else [node]
        replace_all(model.graph.node, nodes)


_Decision: TypeAlias = Callable[[NodeProto, "_Names", ModelProto], list[NodeProto]]
"""Returns the nodes that take the place of a decided one; adds constants to the model, once."""


def _taken(
    branch: GraphProto, node: NodeProto, names: _Names, model: ModelProto
) -> list[NodeProto]:
    """The nodes of the branch that an If takes."""
    copy = _Copy(branch, names, _label(node), {})
    model.graph.initializer.extend(copy.graph.initializer)
    return [*copy.graph.node, *_identities(copy.outputs, node.output)]


def _unrolled(
    whole: GraphProto, count: int, node: NodeProto, names: _Names, model: ModelProto
) -> list[NodeProto]:
    """The nodes of all iterations of a Loop with this body."""
    carried = [*node.input[2:]]
    shared = _Copy(GraphProto(initializer=whole.initializer), names, _label(node), {})
    model.graph.initializer.extend(shared.graph.initializer)
    body = GraphProto(node=whole.node, input=whole.input, output=whole.output)
    true = _number(np.array(True), f"{_label(node)}/true", names, model)
    made: list[NodeProto] = []
    lists: list[list[str]] = []
    for i in range(count):
        label = f"{_label(node)}/{i}"
        index = _number(np.array(i, np.int64), label, names, model)
        given = zip([v.name for v in body.input], (index, true, *carried), strict=True)
        copy = _Copy(body, names, label, {**shared.renamed, **dict(given)})
        made += copy.graph.node
        _, *results = copy.outputs
        carried, each = results[: len(carried)], results[len(carried) :]
        lists.append(each)
    made += _identities(carried, node.output)
    stacked = zip(zip(*lists, strict=True), node.output[len(carried) :], strict=False)
    for parts, output in stacked:
        made += _stacked(parts, output, names, model) if output else []
    return made


def _label(node: NodeProto) -> str:
    return node.name or node.output[0]


def _decided(node: NodeProto, known: Mapping[str, Array], model: ModelProto) -> _Decision | None:
    """What becomes of a node that is decided; None for others, and for none."""
    kind = "" if node.domain else node.op_type
    if kind == "If" and node.input[0] in known:
        branch = _subgraph(node, "then_branch" if known[node.input[0]].item() else "else_branch")
        return None if branch is None else partial(_taken, branch)
    return _iterations(node, known, model) if kind == "Loop" else None


def _subgraph(node: NodeProto, name: str) -> GraphProto | None:
    """A branch or body; None if it has constants in a form that is not read here."""
    found = next(a.g for a in node.attribute if a.name == name)
    return None if found.sparse_initializer else found


def _iterations(node: NodeProto, known: Mapping[str, Array], model: ModelProto) -> _Decision | None:
    """The iterations of a loop that ends after a known number of them and by nothing else."""
    body, (trips, condition, *carried) = _subgraph(node, "body"), node.input
    if body is None or trips not in known or (condition and condition not in known):
        return None
    goes = not condition or bool(known[condition].item())
    count = max(int(known[trips].item()), 0) if goes else 0
    inner = {**known, body.input[1].name: np.array(True), **_constants(body.initializer)}
    again = _evaluated(body.node, inner, {}, _opset(model)).get(body.output[0].name)
    lists = [name for name in node.output[len(carried) :] if name]
    if again is None or not again.item() or (lists and not count):
        return None
    return partial(_unrolled, body, count) if count * len(body.node) <= MOST_NODES else None


class _Names:
    """The names of a model's values, to which new ones are added."""

    def __init__(self, model: ModelProto) -> None:
        self._taken = {name for graph in graphs(model.graph) for name in _defined(graph)}

    def new(self, wanted: str, label: str) -> str:
        """The name itself if there is none like it, else a longer one."""
        name, n = wanted, 0
        while name in self._taken:
            name = f"{label}/{wanted}" + (f"/{n}" if n else "")
            n += 1
        self._taken.add(name)
        return name


def _defined(graph: GraphProto) -> Iterator[str]:
    yield from (v.name for v in (*graph.input, *graph.initializer))
    yield from (name for node in graph.node for name in node.output if name)


class _Copy:
    """A copy of a subgraph with names for the graph around it.

    bound    names outside of values inside
    outputs  names outside of its outputs
    """

    def __init__(
        self, graph: GraphProto, names: _Names, label: str, bound: Mapping[str, str]
    ) -> None:
        self.renamed = dict(bound)
        for name in (name for g in graphs(graph) for name in _defined(g)):
            if name not in self.renamed:
                self.renamed[name] = names.new(name, label)
        self.graph = GraphProto()
        self.graph.CopyFrom(graph)
        _rename(self.graph, self.renamed)
        for node in self.graph.node:
            node.name = names.new(node.name, label) if node.name else ""
        self.outputs = [value.name for value in self.graph.output]


def _rename(graph: GraphProto, renamed: Mapping[str, str]) -> None:
    """Renames values of a graph and of those inside; shapes that were inferred are dropped."""
    del graph.value_info[:]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = renamed.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _rename(inner, renamed)


def _identities(sources: Sequence[str], outputs: Sequence[str]) -> list[NodeProto]:
    pairs = zip(sources, outputs, strict=False)
    return [helper.make_node("Identity", [a], [b], b) for a, b in pairs if b]


def _number(value: Array, wanted: str, names: _Names, model: ModelProto) -> str:
    name = names.new(wanted, "")
    model.graph.initializer.append(numpy_helper.from_array(value, name))
    return name


def _stacked(
    parts: Sequence[str], output: str, names: _Names, model: ModelProto
) -> list[NodeProto]:
    """The tensors of all iterations along a new first axis."""
    by_input = _opset(model) >= _AXES_AS_INPUT
    axes = [_number(np.array([0]), f"{output}/axes", names, model)] if by_input else []
    axis: dict[str, Any] = {} if by_input else {"axes": [0]}
    rows = [names.new(f"{output}/{i}", "") for i in range(len(parts))]
    made = [
        helper.make_node("Unsqueeze", [part, *axes], [row], row, **axis)
        for part, row in zip(parts, rows, strict=True)
    ]
    return [*made, helper.make_node("Concat", rows, [output], output, axis=0)]


def _opset(model: ModelProto) -> int:
    return next((o.version for o in model.opset_import if not o.domain), 1)


def _known_values(model: ModelProto) -> dict[str, Array]:
    """The small values of the main graph that constants and static shapes determine."""
    graph = model.graph
    inputs = {v.name for v in graph.input}
    known = {n: a for n, a in _constants(graph.initializer).items() if n not in inputs}
    while True:  # what is known determines shapes, and these determine more
        found = _evaluated(graph.node, known, _static_shapes(model, known), _opset(model))
        if len(found) == len(known):
            return found
        known = found


def _constants(tensors: Iterable[TensorProto]) -> dict[str, Array]:
    small = (t for t in tensors if prod(t.dims) <= _MOST_KNOWN)
    return {t.name: numpy_helper.to_array(t) for t in small if not t.external_data}


def _evaluated(
    nodes: Iterable[NodeProto],
    known: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
    opset: int,
) -> dict[str, Array]:
    """Adds what the nodes compute from known values and shapes."""
    found = dict(known)
    for node in nodes:
        if node.domain:
            continue
        if node.op_type in ("Shape", "Size") and node.input[0] in shapes:
            sizes = shapes[node.input[0]]
            at = {a.name: a.i for a in node.attribute}
            value = sizes[at.get("start", 0) : at.get("end")]
            found[node.output[0]] = np.array(value if node.op_type == "Shape" else prod(sizes))
        elif node.op_type == "Constant" or (
            node.op_type in FOLDABLE and node.input and {*filter(None, node.input)} <= {*found}
        ):
            found.update(_computed(node, found, opset))
    return found


def _computed(node: NodeProto, known: Mapping[str, Array], opset: int) -> dict[str, Array]:
    """The results of a node of standard operators; none if they are large or not defined."""
    from onnx.reference import ReferenceEvaluator  # slow import, which few models need

    given = {name: known[name] for name in node.input if name}
    if node.op_type == "Div" and any((array < 0).any() for array in given.values()):
        return {}  # the reference rounds down, where ONNX rounds towards zero
    evaluator = ReferenceEvaluator(node, opsets={"": opset})
    try:
        results = [np.asarray(a) for a in evaluator.run(None, given)]
    except Exception:  # whatever it makes of operands that do not fit: ONNX Runtime reports them
        return {}
    pairs = zip(node.output, results, strict=True)
    return {name: array for name, array in pairs if array.size <= _MOST_KNOWN}


def _static_shapes(model: ModelProto, known: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """The static shapes of values in the main graph; `known` are values of some of them."""
    graph = GraphProto(name="shapes", output=model.graph.output)
    graph.node.extend(n for n in model.graph.node if not {*n.output} <= known.keys())
    constants = {t.name: t for t in model.graph.initializer}
    graph.input.extend(v for v in model.graph.input if v.name not in constants)
    graph.initializer.extend(numpy_helper.from_array(array, n) for n, array in known.items())
    for name in constants.keys() - known.keys():  # their elements do not matter
        kind, dims = constants[name].data_type, constants[name].dims
        graph.input.append(helper.make_tensor_value_info(name, kind, dims))
    whole = ModelProto(graph=graph, opset_import=model.opset_import, functions=model.functions)
    whole.ir_version = model.ir_version
    try:
        inferred = inference.infer_shapes(whole, data_prop=True).graph
    except inference.InferenceError:
        inferred = graph
    found = {name: tuple(array.shape) for name, array in known.items()}
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    return found | {v.name: sizes for v in values if (sizes := static_sizes(v)) is not None}
