"""EPContext nodes: compiled for the device, or claimed with the error that Compile reports."""

import numpy as np
import pytest

from ep_nnapi.epcontext.container import pack
from ep_nnapi.epcontext.contexts import context_attributes
from ep_nnapi.epcontext.layout import CONTEXT_DOMAIN, CONTEXT_OP
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.table import Options
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.load_epcontext import UnusableCluster, load
from tests.epcontext.forging import lowered
from tests.faulty import FaultyDevice, compiler_of
from tests.provider.test_planner import model

CONTEXT = pack(lowered(), model_has_checksum=False).with_embedded_weights()
SHAPE = (2, 3)


def floats(*names: str) -> tuple[Value, ...]:
    return tuple(Value(name, DType.FLOAT, SHAPE) for name in names)


def node(context: object = CONTEXT, inputs: str = "x v", outputs: str = "y") -> GraphNode:
    """An EPContext node as ONNX Runtime's graph has it: strings, bytes as surrogates."""
    text = context.decode("utf-8", "surrogateescape") if isinstance(context, bytes) else context
    attributes = {**context_attributes(b"", "nnapi_0", ()), "ep_cache_context": text}
    if context is None:
        del attributes["ep_cache_context"]
    ends = floats(*inputs.split()), floats(*outputs.split())
    return GraphNode(7, "nnapi_0", CONTEXT_OP, CONTEXT_DOMAIN, 1, *ends, attributes)


def loaded(found: GraphNode, device: object = None, level: int = 8):
    compiler = compiler_of(device, level)
    graph = Graph("", (found,), (), ())
    return load(found, graph, compiler, Options())


INPUTS = [v.name for v in lowered().border.inputs]


def whole() -> GraphNode:
    return node(inputs=" ".join(INPUTS))


def test_a_context_is_compiled_and_runs() -> None:
    cluster = loaded(whole())
    assert isinstance(cluster, CompiledCluster)
    assert cluster.node_ids == (7,)
    assert cluster.report.nodes == ("nnapi_0",)
    assert cluster.report.op_types == (CONTEXT_OP,)
    assert cluster.report.boundary_bytes == (len(INPUTS) + 1) * 24
    x, out = np.full(SHAPE, 0.5, np.float32), np.empty(SHAPE, np.float32)
    cluster.bind(INPUTS, ["y"])([x] * len(INPUTS), lambda *_: out, lambda: None)
    np.testing.assert_allclose(out, np.tanh(x + 1), rtol=1e-6)  # rounding of float32


def test_an_input_that_the_context_does_not_read_is_allowed() -> None:
    cluster = loaded(node(inputs=" ".join([*INPUTS, "unused"])))
    assert isinstance(cluster, CompiledCluster)


UNUSABLE = {
    "no context": (node(None), None, "it has no ep_cache_context; prepare the model again"),
    "a number": (node(3), None, "it has no ep_cache_context"),
    "no container": (node(b"something"), None, "nnapi_0: "),
    "cut off": (node(CONTEXT[:-1]), None, "nnapi_0: "),
    "another output": (
        node(inputs=" ".join(INPUTS), outputs="z"),
        None,
        "its tensors are not those of its context; prepare the model again",
    ),
    "an input missing": (node(inputs="unused"), None, "its tensors are not those of its context"),
    "declined": (
        whole(),
        FaultyDevice(declines=frozenset({"TANH"})),
        "nnapi_0 cannot run here: faulty declines TANH",
    ),
    "not compiled": (
        whole(),
        FaultyDevice(fails_on=frozenset({"TANH"})),
        "nnapi_0 cannot run here: ",
    ),
}


@pytest.mark.parametrize(("found", "device", "detail"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_is_claimed_and_says_why(found: GraphNode, device: object, detail: str):
    cluster = loaded(found, device)
    assert isinstance(cluster, UnusableCluster)
    assert cluster.node_ids == (7,)
    with pytest.raises(ModelError) as caught:
        cluster.bind(["x"], ["y"])
    assert detail in str(caught.value)
    assert str(caught.value).startswith("nnapi_0")


def test_a_context_for_a_higher_level_says_which() -> None:
    """Feature level 1 has ADD, MUL and TANH; a NEG needs 3."""
    negated = lowered(model("Neg x -> y"))
    context = pack(negated, model_has_checksum=False).with_embedded_weights()
    assert isinstance(loaded(node(context, inputs="x"), level=3), CompiledCluster)
    cluster = loaded(node(context, inputs="x"), level=2)
    with pytest.raises(ModelError, match="feature level 3"):
        cluster.bind(["x"], ["y"])
