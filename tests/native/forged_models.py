"""Prepared models whose graph is not that of their container; all checksums are right.

    python -m tests.native.forged_models --count 1000 --seed 1

draws such models, with the container changed as well, and runs each with the C plugin and with
Python's provider: both refuse it, or both compute the same.
"""

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, ValueInfoProto, helper

from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.epcontext import layout
from ep_nnapi.epcontext.alternatives import Alternative
from ep_nnapi.epcontext.container import pack
from ep_nnapi.epcontext.contexts import context_attributes
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import ADD
from ep_nnapi.options.table import parse
from ep_nnapi.preparation.alternatives import ClusterNodes, alternatives_in, wanted_of
from ep_nnapi.provider import device_health
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from tests.epcontext.forging import (
    branching,
    edited_each,
    lowered,
    quantized_digits,
    reweighed,
    several,
)
from tests.epcontext.forging import forged as forged_container
from tests.native.sessions import python_session, session
from tests.nnapi.build import one
from tests.provider.test_planner import model

FLOAT, SIZES = np.dtype(np.float32), (2, 3)
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(SIZES)}
Change = Callable[[onnx.GraphProto], object]


def crossing(name: str, operand: int = 0) -> Crossing:
    return Crossing(name, DType.FLOAT, SIZES, operand, None, SIZES, FLOAT)


def addition(*outputs: Crossing) -> Lowered:
    """y = x + 1, which leaves as the crossings say."""
    tensor = Operand(OperandCode.TENSOR_FLOAT32, SIZES)
    model = one(ADD, [tensor, np.ones(1), 0], [tensor])
    return Lowered(model, Border((crossing("x"),), outputs))


def value(name: str, kind: int = TensorProto.FLOAT, sizes: object = SIZES) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, sizes)  # type: ignore[arg-type]


def forged(*cluster: Lowered | Alternative, change: Change = lambda _: None) -> onnx.ModelProto:
    """A model of one cluster, without it of an addition, after a change of its graph."""
    cluster = cluster or (addition(crossing("y")),)
    ends = cluster[0].border.inputs, cluster[0].border.outputs
    tensors = [{c.name: value(c.name, c.dtype.value, c.shape) for c in side} for side in ends]
    attributes = context_attributes(pack(*cluster).with_embedded_weights(), "p", ())
    node = helper.make_node("EPContext", *tensors, "c", domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", *[list(side.values()) for side in tensors])
    change(graph)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def declared(side: str, kind: ValueInfoProto) -> Change:
    return lambda graph: getattr(graph, side)[0].CopyFrom(kind)


def change_context(graph: onnx.GraphProto, change: Callable[[bytes], bytes]) -> None:
    (attribute,) = [a for a in graph.node[0].attribute if a.name == "ep_cache_context"]
    attribute.s = change(attribute.s)


def leaving(*outputs: Crossing) -> Change:
    context = pack(addition(*outputs)).with_embedded_weights()
    return lambda graph: change_context(graph, lambda _: context)


def two_outputs(*outputs: Crossing) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        leaving(*outputs)(graph)
        graph.node[0].output.append("z")
        graph.output.append(value("z"))

    return change


def an_optional(name: str) -> ValueInfoProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, SIZES)
    return helper.make_value_info(name, helper.make_optional_type_proto(tensor))


OTHER = ("UINT8", "INT8", "BOOL", "FLOAT16", "INT32", "DOUBLE", "INT64", "STRING", "BFLOAT16")
KINDS: dict[str, Callable[[str], ValueInfoProto]] = {
    **{t: partial(value, kind=TensorProto.DataType.Value(t)) for t in OTHER},
    "other sizes": partial(value, sizes=(3, 2)),
    "another size": partial(value, sizes=("n", 4)),
    "another rank": partial(value, sizes=(6,)),
    "a scalar": partial(value, sizes=()),
    "a sequence": lambda n: helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, SIZES),
    "sparse": lambda n: helper.make_sparse_tensor_value_info(n, TensorProto.FLOAT, SIZES),
    "an optional": an_optional,
}

REFUSED: dict[str, Change] = {
    **{f"output {kind}": declared("output", make("y")) for kind, make in KINDS.items()},
    **{f"input {kind}": declared("input", make("x")) for kind, make in KINDS.items()},
    "an output that leaves twice": leaving(crossing("y"), crossing("y")),
    "one that leaves twice instead of another": two_outputs(crossing("y"), crossing("y")),
    "an output that the context lacks": two_outputs(crossing("y")),
    "an output that the node lacks": leaving(crossing("y"), crossing("z")),
}
COMPUTED: dict[str, Change] = {
    "as it was made": lambda _: None,
    "an output of unknown sizes": declared("output", value("y", sizes=None)),
    "an output of symbolic sizes": declared("output", value("y", sizes=("a", "b"))),
    "an input of symbolic sizes": declared("input", value("x", sizes=("a", 3))),
    "an operand that leaves as two outputs": two_outputs(crossing("y"), crossing("z")),
}


PARTS = model("Exp x -> a", "Mul a w -> b", "Exp b -> c", "Add b c -> y", constants="w")
"""Exp is an operation of level 3: below it, the cluster is a partition."""


@cache
def sources() -> list[tuple[Lowered | Alternative, ...]]:
    alone = [addition(crossing("y")), lowered(), branching(), quantized_digits()]
    found: list[tuple[Lowered | Alternative, ...]] = [(each,) for each in alone]
    cluster = partitioned(PARTS, parse({})).clusters[0]
    assert isinstance(cluster, CompiledCluster)
    wanted = wanted_of(("nnapi:8", "nnapi:1", "cpu"), 8)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "model.onnx")
        nodes = ClusterNodes(PARTS, cluster.report.nodes)
        made = alternatives_in(cluster.lowered, nodes, wanted, parse({}), scratch)
    whole, parted, cpu = made
    return [*found, several(), (whole, parted, cpu), (parted, whole, cpu), (cpu, parted)]


def redeclared(value: ValueInfoProto, rng: random.Random) -> None:
    """Declares another type or size."""
    if rng.random() < 0.1:
        value.CopyFrom(rng.choice(list(KINDS.values()))(value.name))
        return
    tensor = value.type.tensor_type
    if rng.random() < 0.5 or not tensor.shape.dim:
        tensor.elem_type = rng.choice(TensorProto.DataType.values()[1:17])
        return
    dim = rng.choice(tensor.shape.dim)
    dim.dim_value = rng.choice((1, 2, dim.dim_value + 1, dim.dim_value * 2, 1 << 20))
    if rng.random() < 0.3:
        dim.dim_param = rng.choice(("n", "m"))


def opened(value: ValueInfoProto, rng: random.Random) -> None:
    """Declares fewer sizes: what is left open computes."""
    shape = value.type.tensor_type.shape
    if shape.dim and rng.random() < 0.8:
        rng.choice(shape.dim).dim_param = rng.choice(("n", "m"))
    else:
        value.type.tensor_type.ClearField("shape")


def changed_alike(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Changes a size or a type in the graph, at the border, and mostly in the operands too."""
    values = [v.type.tensor_type for v in (*graph.input, *graph.output)]
    old = rng.choice(values)
    of_operands = rng.random() < 0.8
    if rng.random() < 0.7 and old.shape.dim:
        axis = rng.randrange(len(old.shape.dim))
        size = old.shape.dim[axis].dim_value
        new = rng.choice((1, 2, size + 1, size * 2))
        change = partial(_resize, axis, size, new, of_operands)
        for dims in [v.shape.dim for v in values]:
            if len(dims) > axis and dims[axis].dim_value == size:
                dims[axis].dim_value = new
    else:
        kind, new = old.elem_type, rng.choice(list(OPERANDS))
        change = partial(_retype, kind, new, of_operands)
        for each in values:
            each.elem_type = new if each.elem_type == kind else each.elem_type
    change_context(graph, lambda data: edited_each(data, change))


OPERANDS = {
    TensorProto.FLOAT: OperandCode.TENSOR_FLOAT32,
    TensorProto.FLOAT16: OperandCode.TENSOR_FLOAT16,
    TensorProto.INT32: OperandCode.TENSOR_INT32,
    TensorProto.INT64: OperandCode.TENSOR_INT32,
    TensorProto.BOOL: OperandCode.TENSOR_BOOL8,
    TensorProto.UINT8: OperandCode.TENSOR_QUANT8_ASYMM,
    TensorProto.INT8: OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
}
Tables = dict[str, Any]


def _resize(axis: int, old: int, new: int, of_operands: bool, tables: Tables) -> None:
    ranges = [("sizes", r) for r in tables["crossings"]["shape"]]
    if of_operands:
        rows = tables["operands"]
        ranges += [("numbers", r) for r in rows[rows["value"] == layout.COMPUTED]["dimensions"]]
    for table, (first, count) in ranges:
        sizes = tables[table][int(first) : int(first) + int(count)]
        sizes[axis : axis + 1][sizes[axis : axis + 1] == old] = new


def _retype(old: int, new: int, of_operands: bool, tables: Tables) -> None:
    types = tables["crossings"]["element_type"]
    types[types == old] = new
    if of_operands:
        types, value = tables["operands"]["type"], tables["operands"]["value"]
        types[(types == OPERANDS.get(old)) & (value == layout.COMPUTED)] = OPERANDS[new]


Feeds = Mapping[str, np.ndarray]


def _change(proto: onnx.ModelProto, rng: random.Random) -> None:
    """Changes the graph, the container or both; of this a table or the weights."""
    values = [*proto.graph.input, *proto.graph.output]
    way = rng.choices(("graph", "table", "weights", "alike"), (3, 10, 3, 3))[0]
    if way == "graph":
        rng.choices((redeclared, opened), (1, 2))[0](rng.choice(values), rng)
    elif way == "alike":
        changed_alike(proto.graph, rng)
    else:
        change = forged_container if way == "table" else reweighed
        change_context(proto.graph, lambda data: change(data, rng))


def drawn(rng: random.Random) -> tuple[bytes, Feeds, str]:
    """A model with its graph or its container changed, or both; inputs for its graph; `prefer`.

    The programs for the CPU are among its weights.
    """
    source = rng.choice(sources())
    proto = forged(*source)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        with suppress(Exception):  # what is broken already cannot be changed
            _change(proto, rng)
    random_numbers = np.random.default_rng(rng.getrandbits(31))
    feeds = {}
    for crossing, value in zip(source[0].border.inputs, proto.graph.input, strict=True):
        kind = value.type.tensor_type
        dims = [d.dim_value for d in kind.shape.dim]
        shape = dims if dims and 0 < math.prod(dims) < 1 << 16 else crossing.shape
        dtype = DType(kind.elem_type) if kind.elem_type in OPERANDS else crossing.dtype
        feeds[value.name] = random_numbers.integers(-2, 3, shape).astype(dtype.numpy)
    return proto.SerializeToString(), feeds, rng.choice(("nnapi,cpu", "nnapi", "cpu,nnapi"))


Make = Callable[[bytes], onnxruntime.InferenceSession]


def outcome(model: bytes, feeds: Feeds, make: Make) -> list[bytes] | str:
    """The outputs' bytes, or the sentence of a refusal."""
    try:
        return [np.asarray(y).tobytes() for y in make(model).run(None, dict(feeds))]
    except Exception as error:
        return str(error)


def difference(model: bytes, feeds: Feeds, prefer: str) -> str | None:
    """What the plugin and Python's provider do differently with a model; "": they refuse it.

    What models before this one made of the device is forgotten: it must not be left out.
    """
    device_health._HEALTH.clear()
    ours, theirs = (
        outcome(model, feeds, partial(make, prefer=prefer)) for make in (session, python_session)
    )
    if isinstance(ours, str) and isinstance(theirs, str):
        return ""
    return None if ours == theirs else f"C: {ours!r:.300}, Python: {theirs!r:.300}"


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    asked = parser.parse_args()
    found = Counter[str]()
    for seed in range(asked.seed, asked.seed + asked.count):
        differs = difference(*drawn(random.Random(seed)))
        found["different" if differs else "computed" if differs is None else "refused"] += 1
        if differs:
            sys.stdout.write(f"seed {seed}: {differs}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seed {asked.seed}: {dict(found)}\n")
    return int(bool(found["different"]))


if __name__ == "__main__":
    sys.exit(main())
