"""`compare` names the node that is wrong, and tells a device's defect from the lowering's."""

import random
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.diagnostics.compare import Comparison, cluster_errors, errors_of_parts
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.table import parse
from tests import wrong_device
from tests.cli.command import DIGITS, SAMPLES
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import model_of, parsed
from tests.provider.test_planner import SHAPE, model
from tests.runtimes import host_only

pytestmark = host_only  # the devices with defects are devices of the host runtime in this process
IMAGE = (1, 4, 6, 6)
UNARY = ("Tanh", "Sigmoid", "Abs", "LeakyRelu", "Elu", "HardSwish", "Softmax", "Relu")
BINARY = ("Add", "Mul")  # no differences: one that is zero throughout hides all errors before it
WINDOWED = ("Conv", "AveragePool")


def drawn(seed: int) -> onnx.ModelProto:
    """Nodes n0, n1 ... of x; each reads the last value, or the last and an earlier one.

    Values that no node reads are outputs.
    """
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    values = ["x"]
    for i in range(draw.randint(2, 9)):
        op_type = draw.choice((*UNARY, *BINARY, *WINDOWED))
        inputs = [values[-1]]
        if op_type in BINARY:
            inputs.append(draw.choice(values))
        if op_type == "Conv":
            inputs.append(f"w{i}")
            weights[f"w{i}"] = rng.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]} if op_type in WINDOWED else {}
        nodes.append(helper.make_node(op_type, inputs, [f"v{i}"], f"n{i}", **window))
        values.append(f"v{i}")
    read = {name for node in nodes for name in node.input}
    ends = [v for v in values[1:] if v not in read]
    return model_of(nodes, {"x": IMAGE}, dict.fromkeys(ends, IMAGE), weights, opset=18)


def random_case(seed: int) -> tuple[onnx.ModelProto, str, dict[str, object]]:
    """A network, one of its nodes, and options that may divide it into several clusters."""
    model, draw = drawn(seed), random.Random(-seed)
    node = draw.choice(model.graph.node)
    others = sorted({n.op_type for n in model.graph.node} - {node.op_type})
    options = {"exclude": draw.choice(others)} if others and draw.random() < 0.5 else {}
    return model, node.name, options


def named(found: Comparison) -> tuple[str, ...]:
    return found.culprit.errors.report.nodes if found.culprit else ()


def require_named(seed: int) -> None:
    model, node, options = random_case(seed)
    with wrong_device.installed(wrong_device.of_node(node)):
        found = ep_nnapi.compare(model, seed=seed, **options)
    assert named(found) == (node,), f"seed {seed}: {onnx.printer.to_text(model)} {options}"
    assert found.negative
    assert node in found.report.clusters[found.culprit.cluster].nodes
    assert found.culprit.elsewhere.report.device == "nnapi-reference"
    assert not found.culprit.elsewhere.negative


@pytest.mark.parametrize("seed", range(4))
def test_a_device_that_is_wrong_for_one_operation_is_named_by_it(seed: int):
    require_named(seed)


@pytest.mark.long
def test_in_100_of_100_random_cases():
    for seed in range(100):
        require_named(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_right_device_is_not_accused(seed: int):
    model, _, options = random_case(seed)
    found = ep_nnapi.compare(model, seed=seed, **options)
    assert (found.negative, found.culprit) == (False, None)
    assert set(found.clusters) == set(range(len(found.report.clusters)))


def test_only_the_node_that_is_wrong_is_accused_not_its_readers():
    """Both clusters after the wrong one get the CPU's values, though the output is wrong."""
    model = drawn(5)
    first = model.graph.node[0].name
    with wrong_device.installed(wrong_device.of_node(first)):
        found = ep_nnapi.compare(model, max_cluster_nodes=1)
    wrong = [c.report.nodes for c in found.clusters.values() if c.negative]
    assert wrong == [(first,)]
    assert found.verdict.negative


def test_the_first_of_several_wrong_nodes_is_named():
    model = drawn(5)
    with wrong_device.installed(lambda operation: True):
        assert named(ep_nnapi.compare(model)) == (model.graph.node[0].name,)


def test_small_errors_that_add_up_are_of_the_smallest_part_that_is_beyond():
    """Four nodes scale by 1.00004 each: two are within the tolerance of 1e-4, four beyond it."""
    nodes = " ".join(f"[n{i}] v{i + 1} = Neg (v{i})" for i in range(4))
    model = parsed(f"(float[64] v0) => (float[64] v4) {{ {nodes} }}", 18)
    given = np.linspace(0, 1, 64, dtype=np.float32)  # a spread of 1
    with wrong_device.installed(lambda operation: True, scales=(1.00004, 1.00004)):
        found = ep_nnapi.compare(model, given)
    assert named(found) == ("n0", "n1", "n2", "n3")
    measures = found.culprit.errors.whole
    assert measures.maximum == pytest.approx(4 * 4e-5, rel=0.01)  # float32 rounding, 1.00004**4


def test_every_run_counts():
    """Twenty rows of a model that takes one: the measures are over all of them."""
    steps: list[tuple[int, int]] = []
    progress: Callable[[int, int], None] = lambda done, of: steps.append((done, of))  # noqa: E731
    found = ep_nnapi.compare(DIGITS, SAMPLES, progress=progress)
    assert found.seed is None
    assert found.measures["scores"].elements == 20 * 10
    assert found.clusters[0].measures["scores"].elements == 20 * 10
    assert steps == [(i, 20) for i in range(1, 21)]


def test_errors_of_each_node_by_itself():
    """Each is fed with the CPU's values, so that an error does not spread to later nodes."""
    found = ep_nnapi.compare(DIGITS, by_node=True, flags="USE_FP16", exclude="MaxPool")
    assert set(found.node_errors) == {n for c in found.report.clusters for n in c.nodes}
    assert 0 < max(found.node_errors.values()) <= 2**-7  # float16 has 11 bits; sums add some up
    assert ep_nnapi.compare(DIGITS).nodes == {}


def test_a_device_that_fails_is_the_culprit():
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        found = ep_nnapi.compare(DIGITS)
    assert found.negative
    assert found.failures
    assert found.culprit.errors.failure is not None
    assert named(found) == ("Conv_1",)
    assert not found.culprit.elsewhere.negative


def test_symbolic_sizes_and_inner_graphs_are_compared():
    """The branch that runs has a cluster of its own; the other one did not run."""
    branch = """{0} () => (float[n,3] {0}_y) {{
        [{0}_{1}] {0}_a = {1} (x) [{0}_Tanh] {0}_y = Tanh ({0}_a) }}"""
    then, other = branch.format("then", "Neg"), branch.format("else", "Abs")
    both = f"then_branch = {then}, else_branch = {other}"
    model = parsed(f"(bool c, float[n,3] x) => (float[n,3] y) {{ [if] y = If (c) <{both}> }}", 18)
    given = {"c": np.array(True), "x": np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)}
    with wrong_device.installed(wrong_device.of_node("then_Tanh")):
        found = ep_nnapi.compare(model, given)
    assert len(found.report.clusters) == 2
    assert len(found.clusters) == 1
    assert named(found) == ("then_Tanh",)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("prepared")
    ep_nnapi.prepare(DIGITS, folder, format="context", verify=False)
    return str(folder / "digits_ctx.onnx")


def test_a_compiled_model_has_no_onnx_nodes_to_compare(prepared: str):
    with pytest.raises(ModelError, match="compare the original model"):
        ep_nnapi.compare(prepared)


def test_unknown_names_are_refused():
    with pytest.raises(OptionError, match="Conv_17"):
        ep_nnapi.compare(DIGITS, exclude="Conv_17")


# Errors of clusters by themselves: merged over runs, in run order, of parts of a cluster

MODEL = model("Abs x -> a", "Neg a -> b", "Tanh b -> c", "Exp c -> y")
NODES = ("Abs_a", "Neg_b", "Tanh_c", "Exp_y")
RUNS = Feeds(tuple({"x": np.full(SHAPE, f, np.float32)} for f in (0.0, 0.25, 1.0)))


def test_clusters_are_in_run_order_and_measured_over_all_runs():
    steps: list[int] = []
    found = cluster_errors(
        MODEL.SerializeToString(), RUNS, parse({"exclude": "Tanh"}), advance=lambda: steps.append(0)
    )
    assert [c.report.nodes for c in found] == [("Abs_a", "Neg_b"), ("Exp_y",)]
    assert len(steps) == 2 * 3
    assert [c.whole.elements for c in found] == [3 * 6, 3 * 6]
    assert not any(c.negative for c in found)


def test_one_wrong_run_is_enough():
    """A product with 0 hides the defect in the first run: later ones decide."""
    with wrong_device.installed(wrong_device.of_node("Neg_b")):
        (found,) = cluster_errors(MODEL.SerializeToString(), RUNS, parse({}))
    assert found.negative
    assert found.verdict.worst > 0
    assert found.failure is None


@pytest.mark.parametrize(("size", "parts"), [(1, [NODES[1:2], NODES[2:3]]), (2, [NODES[1:3]])])
def test_parts_of_a_cluster(size: int, parts: list[tuple[str, ...]]):
    nodes = [("Abs_a", ""), ("Neg_b", "Neg"), ("Tanh_c", "Tanh"), ("Exp_y", "")]
    found = errors_of_parts(MODEL.SerializeToString(), RUNS, parse({}), nodes, size)
    assert [c.report.nodes for c in found] == parts


def test_names_with_commas_and_names_of_operators_do_not_mislead():
    """`exclude` takes operator types too: a node left out that is called Neg leaves Neg in."""
    named = model("Abs x -> a", "Neg a -> b", "Tanh b -> y")
    named.graph.node[0].name = "Neg"
    named.graph.node[2].name = "a,b"
    nodes = [("Neg", ""), ("Neg_b", "Neg"), ("a,b", "")]
    found = errors_of_parts(named.SerializeToString(), RUNS, parse({}), nodes, 1)
    assert [c.report.nodes for c in found] == [("Neg_b",)]
