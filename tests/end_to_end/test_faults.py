"""Sessions on devices that decline, fail or miscalculate; and what is chosen for a device."""

import json
import logging
from weakref import WeakKeyDictionary

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.diagnostics.session_runs import open_session
from ep_nnapi.options.table import parse
from ep_nnapi.provider import device_health
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import quiet_options, session_of
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FAULTY, FaultyDevice, installed
from tests.onnx_graph import model_of, serialized

DIGITS = "models/digits.onnx"
CLOSE = 1e-5  # both sum the same float32 products in another order


def session(**options: object) -> ort.InferenceSession:
    return nnapi_session(DIGITS, **options)


def assert_right(made: ort.InferenceSession) -> None:
    images = np.load("models/digits/samples.npz")["images"]
    cpu = session_of(DIGITS)
    for image in images:
        (got,), (want,) = (s.run(None, {"image": image[None]}) for s in (made, cpu))
        assert np.abs(got - want).max() <= CLOSE * max(1, np.abs(want).max())


def test_a_declined_operation_goes_to_the_cpu_with_reason_driver() -> None:
    with installed(FaultyDevice(declines=frozenset({"MAX_POOL_2D"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    expected = [("MaxPool", ep_nnapi.Reason.DRIVER)] * 2
    assert [(r.op_type, r.reason) for r in report.rejections] == expected
    assert all("faulty declines MAX_POOL_2D" in r.detail for r in report.rejections)
    assert [len(c.nodes) for c in report.clusters] == [2, 2, 2]


@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_every_nth_operation_declined(every: int) -> None:
    with installed(FaultyDevice(every=every)) as device:
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert report.capable == report.nodes == 8
    assert report.taken + len(report.rejections) == 8
    assert bool(device.compiled) == bool(report.clusters)


def test_a_compilation_that_fails_in_spite_of_a_yes_leaves_its_cluster_to_the_cpu() -> None:
    with installed(FaultyDevice(fails_on=frozenset({"FULLY_CONNECTED"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.DRIVER}
    assert "no FULLY_CONNECTED today" in report.rejections[0].detail


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
@pytest.mark.parametrize("failing", [0, 3])
def test_a_failing_run_is_taken_over(fallback: str, failing: int, caplog: pytest.LogCaptureFixture):
    with installed(FaultyDevice(fails_at=frozenset({failing}))), caplog.at_level(logging.WARNING):
        assert_right(session(fallback=fallback))
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.compiled_cluster"
    ]
    assert "device faulty failed" in warning
    assert f"fallback={fallback}" in warning


def test_without_fallback_the_failure_is_an_onnxruntime_error_with_our_sentence() -> None:
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        made = session(fallback="none")
        with pytest.raises(Exception, match="out of luck"):
            made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_run_reports_a_device_that_failed(shows) -> None:
    with installed(FaultyDevice(fails_at=frozenset({0}))):
        found = json.loads(shows("run", DIGITS, "--json"))
    (failure,) = found["failures"]
    assert "out of luck" in failure
    assert found["fallback_runs"] == 1


def test_run_exits_3_when_nothing_stands_in(capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        assert main(["run", DIGITS, "--fallback", "none"]) == 3
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "ANEURALNETWORKS_OP_FAILED" in captured.err


def test_run_names_a_device_that_miscalculates(capsys: pytest.CaptureFixture[str]) -> None:
    with installed(FaultyDevice(wrong=0.5)):
        assert main(["run", DIGITS]) == 1
    printed = capsys.readouterr().out
    assert "beyond the tolerance" in printed
    assert f"device {FAULTY} computes wrongly" in printed


DEFECTS = {
    "an exception": lambda results: results[1:2][0],
    "no result": lambda results: [],
    "another type": lambda results: [r.astype(np.float64) for r in results],
    "another shape": lambda results: [r[..., :-1] for r in results],
    "no array": lambda results: [r.tolist() for r in results],
}


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_a_defect_below_the_device_interface_is_taken_over(fallback: str, defect: object, caplog):
    with installed(FaultyDevice(defect=defect)), caplog.at_level(logging.WARNING):
        assert_right(session(fallback=fallback))
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.compiled_cluster"
    ]
    assert "device faulty failed" in warning
    assert "ANEURALNETWORKS_OP_FAILED" in warning


def test_a_device_that_answers_for_too_few_operations_is_left_out() -> None:
    class Short(FaultyDevice):
        def supported(self, model: object) -> tuple[bool, ...]:
            return (True,)

    with installed(Short()):
        report = ep_nnapi.check(DIGITS)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.DRIVER}
    assert "faulty answers for 1 of " in report.rejections[0].detail


def test_of_many_failures_the_last_few_are_kept_without_their_frames() -> None:
    """Frames would hold arrays over buffers that ONNX Runtime has freed."""
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        provider = Provider(parse({"fallback": "none"}))
        made = open_session(DIGITS, quiet_options(), provider)
        for _ in range(50):
            with pytest.raises(Exception, match="out of luck"):
                made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        (cluster,) = provider.clusters
    kept = tuple(cluster.record.failures)
    assert cluster.record.failures.count == 50
    assert len(kept) == len(provider.failures) == 8
    assert {(f.__traceback__, f.__context__, f.__cause__) for f in kept} == {(None, None, None)}


def gather() -> bytes:
    text = """(int32[2] index) => (float[2,3] y) {
        [gather] rows = Gather (data, index) [relu] y = Relu (rows) }"""
    return serialized(text, data=np.eye(3, dtype=np.float32))


def test_inputs_that_cannot_be_computed_do_not_cost_other_models_the_reference_device(monkeypatch):
    """A device of hardware is left out after the third cluster that fails on it."""
    monkeypatch.setattr(device_health, "_HEALTH", WeakKeyDictionary())
    model = gather()
    for _ in range(device_health.MOST_FAILURES):
        outside = nnapi_session(model, device="nnapi-reference", fallback="none")
        with pytest.raises(Exception, match="OP_FAILED"):
            outside.run(None, {"index": np.array([0, 3], np.int32)})
    report = ep_nnapi.check(model, device="nnapi-reference")
    assert (report.taken, report.nodes) == (2, 2)


def clusters(**options: object) -> list[list[str]]:
    """The operators of each cluster of digits: Conv Relu MaxPool, twice, then Reshape Gemm."""
    report = ep_nnapi.check(DIGITS, **options)
    return [[name.split("_")[0].split("/")[0] for name in c.nodes] for c in report.clusters]


def test_stop_ops_take_everything_after_them_along() -> None:
    assert clusters(partitioning_stop_ops="MaxPool") == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, partitioning_stop_ops=["MaxPool"])
    assert len(report.rejections) == 6
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.EXCLUDED}
    assert "partitioning_stop_ops" in report.rejections[0].detail


def test_clusters_below_the_least_size_are_left() -> None:
    assert len(clusters(exclude="MaxPool")) == 3
    assert clusters(exclude="MaxPool", min_cluster_nodes=2) == clusters(exclude="MaxPool")
    assert clusters(exclude="MaxPool", min_cluster_nodes=3) == []
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", min_cluster_nodes=3)
    assert "has 2 nodes, fewer than min_cluster_nodes = 3" in report.rejections[0].detail


def test_few_clusters_are_those_that_save_most() -> None:
    """5x5 on 8x8 for 16 channels: 25,600 MACs; 3x3 on 4x4 from 16 to 32: 73,728.

    The first costs 500 us for its turn and 64 + 1,024 floats over its border, and saves 4e-5 us for
    each MAC, those of its Relu included.
    """
    assert clusters(exclude="MaxPool", max_clusters=1) == [["Conv", "Relu"]]
    report = ep_nnapi.check(DIGITS, exclude="MaxPool", max_clusters=1)
    assert report.clusters[0].nodes[0] == "Conv_5"
    slower = 500 + 4 * (64 + 1024) * 5e-4 - (25_600 + 1024) * 4e-5
    assert f"its cluster, estimated {slower:.0f} us slower" in report.rejections[0].detail
    assert "is not among the max_clusters = 1 that save most" in report.rejections[0].detail
    assert clusters(exclude="MaxPool", max_clusters=3) == clusters(exclude="MaxPool")


@pytest.mark.parametrize("option", ["min_cluster_nodes", "max_clusters"])
def test_counts_are_1_or_more(option: str) -> None:
    with pytest.raises(ep_nnapi.OptionError, match=f"{option} is 0; it must be 1 or more"):
        ep_nnapi.check(DIGITS, **{option: 0})


def test_a_compilation_that_fails_costs_only_the_nodes_that_spoil_it() -> None:
    with installed(FaultyDevice(fails_on=frozenset({"FULLY_CONNECTED"}))):
        assert_right(session())
        report = ep_nnapi.check(DIGITS)
    assert [r.op_type for r in report.rejections] == ["Gemm"]
    assert report.rejections[0].reason is ep_nnapi.Reason.DRIVER
    assert report.taken == 7


def test_worth_it_leaves_a_tiny_network_to_the_cpu() -> None:
    """8 nodes and 0.1 million multiply-accumulates do not make up for a cluster's 500 us."""
    report = ep_nnapi.check(DIGITS, partitioning="worth_it")
    assert (report.capable, report.taken) == (8, 0)
    assert {r.reason for r in report.rejections} == {ep_nnapi.Reason.NOT_WORTH_IT}
    (detail,) = {r.detail for r in report.rejections}
    assert detail == (
        "worth_it: taking these 8 nodes by themselves is estimated 496 us slower than the CPU "
        "provider; partitioning=maximal takes them"
    )
    assert_right(session(partitioning="worth_it"))
    assert clusters(partitioning="maximal") == clusters()


NO_TRANSPOSE = frozenset({"TRANSPOSE"})


def model(*lines: str, shape: tuple[int, ...] = (1, 4, 6, 6), **arrays: object) -> bytes:
    """Nodes as "Relu x -> a" or "Transpose x -> a perm=[0, 2, 3, 1]"; x comes in, y goes out."""
    nodes = []
    for line in lines:
        head, _, tail = line.partition(" -> ")
        op_type, *inputs = head.split()
        output, _, given = tail.partition(" ")
        attributes = eval(f"dict({given})")
        nodes.append(
            helper.make_node(op_type, inputs, [output], f"{op_type}_{output}", **attributes)
        )
    return model_of(nodes, {"x": shape}, {"y": None}, arrays).SerializeToString()


def taken(data: bytes, device: FaultyDevice, **options: object) -> list[tuple[str, ...]]:
    """The clusters on `device`, after a run that computes what the CPU provider does."""
    shape = session_of(data).get_inputs()[0].shape
    feeds = {"x": np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    with installed(device):
        report = ep_nnapi.check(data, **options)
        (got,) = nnapi_session(data, severity=4, **options).run(None, feeds)
    (want,) = session_of(data).run(None, feeds)
    np.testing.assert_allclose(got, want, CLOSE, CLOSE * np.abs(want).max())
    return [c.nodes for c in report.clusters]


FILTERS = np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32)
CONV = "kernel_shape=[3, 3], pads=[1, 1, 1, 1]"
NHWC = "perm=[0, 2, 3, 1]"


def constants(lines: tuple[str, ...]) -> dict[str, object]:
    return {"w": FILTERS} if any("Conv" in line for line in lines) else {}


# What a device without TRANSPOSE takes all the same: the border permutes.
AT_THE_BORDER: dict[str, tuple[str, ...]] = {
    "comes in": (f"Transpose x -> a {NHWC}", "Tanh a -> y"),
    "goes out": ("Tanh x -> a", f"Transpose a -> y {NHWC}"),
    "comes in and goes out": (
        f"Transpose x -> a {NHWC}",
        "Tanh a -> b",
        "Transpose b -> y perm=[3, 0, 2, 1]",
    ),
    "twice in a row": (
        "Tanh x -> a",
        "Transpose a -> b perm=[1, 0, 3, 2]",
        f"Transpose b -> y {NHWC}",
    ),
    "comes in twice": (
        f"Transpose x -> a {NHWC}",
        "Tanh a -> b",
        f"Transpose x -> c {NHWC}",
        "Neg c -> d",
        "Add b d -> y",
    ),
    "around a convolution": (f"Conv x w -> a {CONV}", f"Transpose a -> y {NHWC}"),
}


@pytest.mark.parametrize("lines", AT_THE_BORDER.values(), ids=AT_THE_BORDER)
def test_a_declined_permute_at_the_edge_moves_to_the_border(lines: tuple[str, ...]) -> None:
    data = model(*lines, **constants(lines))
    (cluster,) = taken(data, FaultyDevice(declines=NO_TRANSPOSE))
    # what ONNX Runtime makes of the transposes comes first: two in a row are one
    assert [cluster] == taken(data, FaultyDevice())
    assert any("Transpose" in name for name in cluster)


SHAPE = np.array([1, 24, 6], np.int64)
IMAGE = np.array([1, 4, 6, 6], np.int64)


def test_a_permute_inside_parts_the_cluster_at_the_cheaper_node() -> None:
    """NHWC pictures are flattened in ONNX's order, which a convolution cannot do itself."""
    data = model(f"Conv x w -> a {CONV}", "Reshape a s -> b", "Tanh b -> y", w=FILTERS, s=SHAPE)
    assert taken(data, FaultyDevice()) == [("Conv_a", "Reshape_b", "Tanh_y")]
    device = FaultyDevice(declines=NO_TRANSPOSE)
    assert taken(data, device) == [("Conv_a",), ("Tanh_y",)]
    with installed(device):
        (refusal,) = ep_nnapi.check(data).rejections
    assert (refusal.node, refusal.reason) == ("Reshape_b", ep_nnapi.Reason.DRIVER)
    assert refusal.detail == "permute inside: the device declines TRANSPOSE"


def test_the_cheaper_node_may_be_the_one_before_the_permute() -> None:
    data = model(
        *("Tanh x -> a", "Reshape a s -> b", f"Conv b w -> y {CONV}"),
        **{"shape": (1, 24, 6), "w": FILTERS, "s": IMAGE},
    )
    assert taken(data, FaultyDevice()) == [("Tanh_a", "Reshape_b", "Conv_y")]
    assert taken(data, FaultyDevice(declines=NO_TRANSPOSE)) == [("Tanh_a",), ("Conv_y",)]


def test_a_permute_and_another_operation_declined() -> None:
    data = model(f"Transpose x -> a {NHWC}", "Tanh a -> b", "Neg b -> y")
    device = FaultyDevice(declines=NO_TRANSPOSE | {"TANH"})
    assert taken(data, device) == [("Transpose_a",), ("Neg_y",)]


def test_a_reshape_that_permutes_is_a_permute_too() -> None:
    """One row is all there is to permute: NHWC is a matter of sizes, and the border's as well."""
    data = model(f"Transpose x -> a {NHWC}", "Tanh a -> y", shape=(1, 1, 6, 6))
    assert taken(data, FaultyDevice(declines=frozenset({"RESHAPE"}))) == [("Transpose_a", "Tanh_y")]


@pytest.mark.parametrize("every", [1, 2, 3, 4])
@pytest.mark.parametrize("lines", AT_THE_BORDER.values(), ids=AT_THE_BORDER)
def test_every_kth_operation_declined(lines: tuple[str, ...], every: int) -> None:
    data = model(*lines, **constants(lines))
    assert sum(map(len, taken(data, FaultyDevice(every=every)))) <= len(lines)


def test_symbolic_sizes() -> None:
    """The device is asked again for the sizes of a run."""
    lines = (f"Transpose x -> a {NHWC}", "Tanh a -> y")
    data = onnx.ModelProto.FromString(model(*lines))
    data.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with installed(FaultyDevice(declines=NO_TRANSPOSE)):
        assert ep_nnapi.check(data.SerializeToString()).taken == 2


# ONNX Runtime asks again ---------------------------------------------------------------------

HARD_SWISH = ("Conv x w -> a", "HardSwish a -> b", "Conv b w -> y")


def test_what_was_taken_before_functions_are_inlined_stays_in_the_report() -> None:
    """A declined HardSwish becomes HardSigmoid and Mul, when the convolutions are fused already."""
    data = model(*HARD_SWISH, w=FILTERS)
    assert taken(data, FaultyDevice()) == [("Conv_a", "HardSwish_b", "Conv_y")]
    device = FaultyDevice(declines=frozenset({"HARD_SWISH"}))
    first, last, *inlined = taken(data, device)
    assert (first, last) == (("Conv_a",), ("Conv_y",))
    with installed(device):
        report = ep_nnapi.check(data)
    assert report.nodes == report.capable == report.taken + len(report.rejections)
    assert report.taken == 2 + sum(map(len, inlined))
    assert "NnapiPlugin" not in str(report)


def test_what_was_left_before_functions_are_inlined_keeps_its_reason() -> None:
    device = FaultyDevice(declines=frozenset({"CONV_2D", "HARD_SWISH"}))
    with installed(device):
        report = ep_nnapi.check(model(*HARD_SWISH, w=FILTERS))
    reasons = {r.node: (r.reason, r.detail) for r in report.rejections}
    assert reasons["Conv_a"] == (ep_nnapi.Reason.DRIVER, "faulty declines CONV_2D, HARD_SWISH")
    assert reasons["Conv_y"] == reasons["Conv_a"]
    assert report.nodes == report.capable == report.taken + len(report.rejections)
