"""Runs padded to sizes in use, on devices that compile numbers only, and why they are not."""

import numpy as np
import onnx
import pytest

from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import parsed
from tests.provider.test_planner import plan

ROWS = "(float[n,3] x, float[3] w) => (float[n,3] y) { a = Add (x, w) y = Tanh (a) }"
MASKED = """(float[batch,length,4] x, float[batch,length] mask) => (float[batch,length,4] y)
    <float[4] w, float one = {1}, float low = {-10000}> {
    one_less = Sub (one, mask)
    bias = Mul (one_less, low)
    wide = Unsqueeze (bias, axis)
    turned = Transpose <perm = [0, 2, 1]> (x)
    scores = MatMul (x, turned)
    some = Add (scores, wide)
    weights = Softmax <axis = -1> (some)
    y = MatMul (weights, x) }"""


def cluster(model: onnx.ModelProto, device: FaultyDevice, **options: object) -> DynamicCluster:
    (found,) = plan(model, device, **options).clusters
    assert isinstance(found, DynamicCluster)
    return found


class Checked:
    """A runner of a cluster that is a whole model; outputs are the CPU provider's."""

    def __init__(self, found: DynamicCluster, model: onnx.ModelProto) -> None:
        self.names = [[v.name for v in ends] for ends in (found.inputs, found.outputs)]
        self.types = [found.output_types[name] for name in self.names[1]]
        self.bound = found.bind(*self.names)
        self.cpu = session_of(model.SerializeToString())

    def __call__(self, **given: np.ndarray) -> None:
        results: dict[int, np.ndarray] = {}

        def allocate(i: int, shape: tuple[int, ...]) -> np.ndarray:
            return results.setdefault(i, np.zeros(shape, self.types[i]))

        self.bound([given[name] for name in self.names[0]], allocate, lambda: None)
        for i, want in enumerate(self.cpu.run(self.names[1], given)):
            np.testing.assert_allclose(results[i], want, rtol=1e-5, atol=1e-6)  # other sums


def masked() -> onnx.ModelProto:
    return parsed(MASKED, w=np.ones(4, np.float32), axis=np.array([1]))


def drawn(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    return {n: rng.standard_normal(s).astype("f4") for n, s in (("x", (rows, 3)), ("w", (3,)))}


def sizes_of(device: FaultyDevice) -> list[tuple[int, ...]]:
    return [model.operands[model.inputs[0]].dimensions for model in device.compiled]


def test_runs_are_padded_to_the_next_larger_size_and_outputs_are_cut(caplog):
    model, device = parsed(ROWS), FaultyDevice()
    found = cluster(model, device, sizes="n=8,4")
    run = Checked(found, model)
    for rows in (1, 3, 4, 5, 8, 2, 7):
        run(**drawn(rows))
    assert sizes_of(device) == [(4, 3), (8, 3)]
    assert (found.record.device_runs, found.record.substitutes) == (7, {})
    assert not caplog.messages


def test_larger_sizes_are_compiled_as_without_buckets():
    model, device = parsed(ROWS), FaultyDevice()
    found = cluster(model, device, sizes="n=4", new_sizes=1)
    run = Checked(found, model)
    for rows in (2, 5, 6):
        run(**drawn(rows))
    assert sizes_of(device) == [(4, 3), (5, 3)]  # 6 waits
    assert found.record.device_runs == 2


def test_a_mask_lets_what_is_not_elementwise_be_padded():
    model, device = masked(), FaultyDevice()
    found = cluster(model, device, sizes="length=8;batch=2", mask="mask")
    run = Checked(found, model)
    for batch, length in ((1, 3), (2, 8), (2, 5)):
        x = np.random.default_rng(length).standard_normal((batch, length, 4)).astype("f4")
        mask = np.ones((batch, length), np.float32)
        mask[0, -1] = 0  # the user's own padding
        run(x=x, mask=mask)
    assert found.record.substitutes == {}
    assert all(shape[:2] == (2, 8) for shape in sizes_of(device))


def test_each_symbol_is_tried_when_a_run_is_padded_along_it(caplog: pytest.LogCaptureFixture):
    """Runs of sizes in use, or padded along another axis, say nothing of it."""
    model = parsed("(float[batch,n] x) => (float[batch,n] y) { y = Softmax <axis = 0> (x) }")
    device = FaultyDevice()
    found = cluster(model, device, sizes="batch=1,4;n=4,8")
    run = Checked(found, model)
    for batch, n in ((1, 4), (1, 3), (4, 8)):
        run(x=np.ones((batch, n), np.float32))
    assert (found.record.device_runs, caplog.messages) == (3, [])
    run(x=np.ones((3, 8), np.float32))
    assert "is not padded: padding changes y" in caplog.messages[0]


LATER = """(float[n,3] x) => (float[n,3] y) <int64 five = {5}, int64 zero = {0}> {
    sizes = Shape (x)
    n = Gather (sizes, zero)
    small = Less (n, five)
    less = Neg (x)
    y = Where (small, x, less) }"""
FOURS = """(float[n] x) => (float[n] y)
    <int64 four = {4}, int64[1] zero = {0}, int64[2] rows = {-1, 4}> {
    n = Shape (x)
    more = Mod (n, four)
    rest = Sub (four, more)
    last = Mod (rest, four)
    ends = Concat <axis = 0> (zero, last)
    whole = Pad <mode = "edge"> (x, ends)
    groups = Reshape (whole, rows)
    most = ReduceMean <axes = [1]> (groups)
    wide = Sub (groups, most)
    flat = Reshape (wide, one)
    y = Slice (flat, zero, n) }"""


@pytest.mark.parametrize(("text", "first"), [(LATER, 13), (FOURS, 8)])
def test_what_depends_on_a_comparison_or_remainder_of_a_size_is_not_padded(text: str, first: int):
    """The first run itself is the same when it is padded."""
    model = parsed(text, one=np.array([-1])) if "one" in text else parsed(text)
    found = cluster(model, FaultyDevice(), sizes="n=16")
    run = Checked(found, model)
    for n in (first, 4, 9):
        run(
            x=np.arange(n * 3 if text is LATER else n, dtype="f4").reshape(
                n, *[3] * (text is LATER)
            )
        )


SEVERAL = """(float[batch,n] x) => (float[batch,n] y) <int64 zero = {0}, int64 one = {1}> {
    sizes = Shape (x)
    batch = Gather (sizes, zero)
    more = Sub (batch, one)
    times = Cast <to = 1> (more)
    mean = ReduceMean <axes = [1]> (x)
    term = Mul (mean, times)
    y = Add (x, term) }"""


def test_a_batch_of_one_hides_nothing():
    model = parsed(SEVERAL)
    found = cluster(model, FaultyDevice(), sizes="batch=1,4;n=4")
    run = Checked(found, model)
    for batch in (1, 4):
        run(x=np.ones((batch, 3), np.float32))


MARKED = """(int32[1,n] ids, int32[1,n] marks) => (float[1,n,3] y) <float[1] low = {-10000}> {
    x = Gather (table, ids)
    seen = Cast <to = 1> (marks)
    bias = Mul (seen, low)
    wide = Unsqueeze (bias, one)
    turned = Transpose <perm = [0, 2, 1]> (x)
    scores = MatMul (x, turned)
    some = Sub (scores, wide)
    weights = Softmax <axis = -1> (some)
    y = MatMul (weights, x) }"""


def test_integers_that_mark_are_not_padded_without_the_option():
    """In samples they are padded with zeros and ones, beside other indexes."""
    table = np.random.default_rng(1).standard_normal((9, 3)).astype("f4")
    model = parsed(MARKED, table=table, one=np.array([1]))
    found = cluster(model, FaultyDevice(), sizes="n=4")
    run = Checked(found, model)
    for n in (2, 3, 4):
        run(ids=np.arange(n, dtype="i4")[None] + 2, marks=np.zeros((1, n), "i4"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {},
            "is not padded: padding changes y; name the input whose zeros mark it "
            "(--mask x or mask), or fix a size, such as --fix length=8",
        ),
        ({"mask": "other"}, "is not padded: other, the option mask, reaches no input of it"),
        ({"mask": "x"}, "is not padded: padding changes y, although x is 0 there"),
    ],
)
def test_what_padding_would_change_is_refused_once_with_the_reason(options, said, caplog):
    model, device = masked(), FaultyDevice()
    found = cluster(model, device, sizes="length=8", **options)
    run = Checked(found, model)
    for length in (3, 5):
        x = np.random.default_rng(length).standard_normal((1, length, 4)).astype("f4")
        run(x=x, mask=np.ones((1, length), np.float32))
    (warning,) = caplog.messages
    assert said in warning
    assert found.record.device_runs == 2  # compiled for each


def test_where_no_input_can_mark_padding_none_is_asked_for(caplog: pytest.LogCaptureFixture):
    """The input reaches it twice, and the other one has no size that is padded."""
    text = """(float[n,3] x, float[3] w) => (float[n,3] y) {
        a = Add (x, w) b = Softmax <axis = 0> (a) y = Mul (b, x) }"""
    model = parsed(text)
    run = Checked(cluster(model, FaultyDevice(), sizes="n=4,8"), model)
    run(**drawn(3))
    (warning,) = caplog.messages
    assert "padding changes y; no input can mark it, so fix a size, such as --fix n=8" in warning


def test_devices_that_take_open_dimensions_need_no_buckets():
    device = FaultyDevice(opens=True)
    found = cluster(parsed(ROWS), device, sizes="n=4")
    Checked(found, parsed(ROWS))(**drawn(3))
    assert sizes_of(device) == [(0, 3)]


def test_a_mask_that_reaches_the_cluster_through_the_cpu():
    """INT64 masks are cast and reshaped there, as in exported transformers."""
    text = MASKED.replace("float[batch,length] mask", "int64[batch,length] mask")
    text = text.replace("Sub (one, mask)", "Sub (one, f)").replace(
        "{\n", "{\n f = Cast <to = 1> (mask)", 1
    )
    model = parsed(text, w=np.ones(4, np.float32), axis=np.array([1]))
    with installed(FaultyDevice()) as device:
        ours = nnapi_session(model, sizes="length=8;batch=1", mask="mask", exclude="Cast")
        cpu = session_of(model.SerializeToString())
        for length in (3, 6):
            x = np.random.default_rng(length).standard_normal((1, length, 4)).astype("f4")
            feeds = {"x": x, "mask": np.ones((1, length), np.int64)}
            for got, want in zip(ours.run(None, feeds), cpu.run(None, feeds), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # sums in another order
    assert len(device.compiled) == 1
