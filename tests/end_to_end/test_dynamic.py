"""Models with symbolic sizes: compiled for the sizes of each run."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.provider.fallback import CpuModel
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session as session
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import parsed, serialized

CLOSE = 1e-5  # both sum the same float32 products in another order


@pytest.fixture
def model(tmp_path: Path) -> str:
    """x [batch, 3, height, width] -> Conv, Relu, MaxPool, Conv -> y."""
    rng = np.random.default_rng(0)
    v, w = (rng.standard_normal(s).astype(np.float32) for s in ((8, 3, 3, 3), (4, 8, 3, 3)))
    text = """(float[batch,3,height,width] x) => (y) {
        [first] a = Conv <pads = [1,1,1,1]> (x, v) [relu] b = Relu (a)
        [pool] c = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b) [second] y = Conv (c, w) }"""
    path = tmp_path / "dynamic.onnx"
    onnx.save(parsed(text, v=v, w=w), path)
    return str(path)


def picture(*shape: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


def assert_right(model: str, made: ort.InferenceSession, *shape: int) -> None:
    cpu = session_of(model)
    feeds = picture(*shape)
    (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= CLOSE * max(1, np.abs(want).max())


def test_every_size_runs_in_one_cluster(model: str) -> None:
    report = ep_nnapi.check(model)
    assert (report.taken, report.nodes, len(report.clusters)) == (4, 4, 1)
    made = session(model)
    for shape in [(1, 3, 8, 8), (2, 3, 8, 8), (1, 3, 16, 10), (1, 3, 8, 8), (3, 3, 9, 7)]:
        assert_right(model, made, *shape)


def test_known_sizes_are_compiled_once_and_the_oldest_are_dropped(model: str) -> None:
    with installed(FaultyDevice()) as device:
        made = session(model, shape_cache=2, new_sizes=9)
        compiled = []
        for size in (8, 8, 16, 8, 24, 8):
            made.run(None, picture(1, 3, size, size))
            compiled.append(len(device.compiled))
    assert compiled == [1, 1, 2, 2, 3, 3]


def test_off_refuses_and_names_the_dimension(model: str) -> None:
    report = ep_nnapi.check(model, dynamic_shapes="off")
    assert report.taken == 0
    refusal = report.rejections[0]
    assert refusal.reason is ep_nnapi.Reason.SHAPE
    assert "x dimension 0 is 'batch'" in refusal.detail


def test_off_with_fixed_sizes_judges_those(model: str) -> None:
    report = ep_nnapi.check(model, dynamic_shapes="off", fix={"x": (1, 3, 8, 8)})
    assert report.taken == 4


def test_fix_on_the_command_line(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", model, "--strict", "--fix", "x=1,3,8,8"]) == 0
    assert main(["check", model, "--fix", "z=1,3,8,8"]) == 2
    assert "fix: z is no input or symbolic dimension" in capsys.readouterr().err


def test_sizes_that_a_device_cannot_have_run_on_the_cpu_and_a_warning_says_so(model: str, caplog):
    with (
        installed(FaultyDevice(fails_on=frozenset({"MAX_POOL_2D"}))),
        caplog.at_level(logging.WARNING),
    ):
        assert_right(model, session(model), 1, 3, 8, 8)
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "ep_nnapi.provider.dynamic_cluster"
    ]
    assert "run on the CPU provider: DRIVER" in warning


def test_the_weights_are_written_for_the_cpu_once(model: str, monkeypatch: pytest.MonkeyPatch):
    """`fallback=cpu` keeps the cluster's nodes on disk, for all sizes alike."""
    kept: list[CpuModel] = []
    keep = CpuModel.of
    monkeypatch.setattr(
        CpuModel, "of", staticmethod(lambda *given: kept.append(keep(*given)) or kept[-1])
    )
    made = session(model, fallback="cpu")
    for size in (8, 16, 24):
        assert_right(model, made, 1, 3, size, size)
    assert len(kept) == 1


def test_concurrent_runs_with_different_sizes(model: str) -> None:
    made = session(model, shape_cache=3)
    cpu = session_of(model)
    feeds = [picture(1 + i % 3, 3, 8 + i % 5, 8 + i % 4) for i in range(60)]
    want = [cpu.run(None, f)[0] for f in feeds]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda f: made.run(None, f)[0], feeds))
    for a, b in zip(got, want, strict=True):
        assert np.abs(a - b).max() <= CLOSE * max(1, np.abs(b).max())


LOOP = """(float[rows,width] x, int64 count) => (float[rows,width] y) {
    one = Constant <value_int = 1> ()
    go = Cast <to = 9> (one)
    y = Loop (count, go, x) <body = step (int64 i, bool before, float[rows,width] sum)
        => (bool after, float[rows,width] more) {
        after = Identity (before)
        [row] row = Gather <axis = 0> (x, i)
        axes = Constant <value_ints = [0]> ()
        wide = Unsqueeze (row, axes)
        more = Add (sum, wide)
    }> }"""


@pytest.mark.parametrize("options", [{}, {"sizes": "rows=4;width=4,8,16"}, {"fallback": "cpu"}])
def test_bodies_of_loops_with_constants_have_other_sizes(options: dict[str, str]) -> None:
    """ONNX Runtime gives a cluster in a body the constants that it has itself."""
    model = serialized(LOOP)
    with installed(FaultyDevice(fails_at=frozenset({3}))):
        made, cpu = session(model, severity=4, partitioning="maximal", **options), session_of(model)
        for width in (3, 4, 5, 6, 7, 8):
            x = picture(3, width)["x"]
            (got,), (want,) = (s.run(None, {"x": x, "count": np.array(3)}) for s in (made, cpu))
            np.testing.assert_allclose(got, want, atol=CLOSE)
        clusters = ep_nnapi.receipts()[-1]["clusters"]
    (body,) = [cluster for cluster in clusters if "row" in cluster["nodes"]]
    assert body["runs"] == 6 * 3


@pytest.mark.fast_devices
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("states", ["", ", , h", ", , h, h"])
def test_an_lstm_of_any_batch_is_compiled_once(direction: str, states: str) -> None:
    """A state that the model omits is zeros, whose number is the batch."""
    rng, ways = np.random.default_rng(0), 1 + (direction == "bidirectional")
    shapes = {"w": (ways, 64, 8), "r": (ways, 64, 16), "b": (ways, 128)}
    weights = {k: rng.standard_normal(s).astype(np.float32) / 4 for k, s in shapes.items()}
    first = f", float[{ways},batch,16] h" if states else ""
    text = f"""(float[6,batch,8] x{first}) => (y) {{
        y = LSTM <hidden_size = 16, direction = "{direction}"> (x, w, r, b{states}) }}"""
    proto = parsed(text, **weights).SerializeToString()
    made, cpu = session(proto, device="host-cpu"), session_of(proto)
    for batch in (4, 1, 2, 70, 3):
        feeds = {"x": rng.standard_normal((6, batch, 8)).astype(np.float32)}
        if states:
            feeds["h"] = rng.standard_normal((ways, batch, 16)).astype(np.float32)
        (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=CLOSE)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (5, 1)


SAME = 'kernel_shape = [3,3], strides = [2,2], auto_pad = "SAME_UPPER"'
ENDS = "(float[batch,3,height,width] x) => (y)"
FLOATS = f"""{ENDS} {{ a = Conv <{SAME}> (x, v) b = Relu (a) c = MaxPool <{SAME}> (b)
    d = Conv <{SAME}, group = 4> (c, w) y = GlobalAveragePool (d) }}"""
QUANTIZED = f"""{ENDS} {{ q = QuantizeLinear (x, s, z) r = DequantizeLinear (q, s, z)
    v_ = DequantizeLinear (v, t, i) a = Conv <{SAME}> (r, v_)
    p = QuantizeLinear (a, u, z) o = DequantizeLinear (p, u, z)
    b = MaxPool <{SAME}> (o) k = QuantizeLinear (b, u, z) y = DequantizeLinear (k, u, z) }}"""


@pytest.mark.fast_devices
@pytest.mark.parametrize("text", [FLOATS, QUANTIZED], ids=["floats", "quantized"])
def test_windows_that_are_padded_to_the_same_size_are_compiled_once(text: str) -> None:
    """TensorFlow's padding differs between even and odd sizes; NNAPI and ONNX compute it alike."""
    rng = np.random.default_rng(0)
    if text is FLOATS:
        v, w = (rng.standard_normal(s).astype(np.float32) for s in ((8, 3, 3, 3), (4, 2, 3, 3)))
        proto = parsed(text, v=v, w=w).SerializeToString()
    else:
        v = rng.integers(-127, 128, (8, 3, 3, 3), np.int8)
        s, t, u = np.float32(0.03), np.float32(0.01), np.float32(0.1)
        proto = parsed(text, v=v, s=s, t=t, u=u, z=np.uint8(128), i=np.int8(0)).SerializeToString()
    made, cpu = session(proto, device="host-cpu"), session_of(proto)
    for shape in [(1, 3, 32, 32), (2, 3, 33, 32), (1, 3, 31, 65), (1, 3, 9, 6), (1, 3, 17, 47)]:
        (got,), (want,) = (s.run(None, picture(*shape)) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=CLOSE if text is FLOATS else 0.1001)  # quantum
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (5, 1)


WINDOWS = {
    "mean of the image": """AveragePool <kernel_shape = [3,3], strides = [2,2],
        pads = [1,1,1,1]> (x)""",
    "mean with padding": """AveragePool <kernel_shape = [3,3], pads = [1,1,1,1],
        count_include_pad = 1> (x)""",
    "mean with padding below": """AveragePool <kernel_shape = [3,3], pads = [0,1,2,1],
        strides = [2,2], count_include_pad = 1> (x)""",
    "mean, the same size": """AveragePool <kernel_shape = [3,3], strides = [2,2],
        auto_pad = "SAME_UPPER"> (x)""",
    "mean of whole windows and a rest": """AveragePool <kernel_shape = [2,2], strides = [2,2],
        ceil_mode = 1> (x)""",
    "mean of tiles": "AveragePool <kernel_shape = [4,4], strides = [4,4]> (x)",
    "maximum, more above": """MaxPool <kernel_shape = [3,3], strides = [2,2],
        auto_pad = "SAME_LOWER"> (x)""",
    "maximum of pairs": """MaxPool <kernel_shape = [2,2], strides = [2,2],
        auto_pad = "SAME_UPPER"> (x)""",
    "norm": "LpPool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (x)",
    "convolution, more above": """Conv <kernel_shape = [3,3], strides = [2,2],
        auto_pad = "SAME_LOWER"> (x, v)""",
    "convolution of pixels": """Conv <kernel_shape = [1,1], strides = [2,2],
        auto_pad = "SAME_UPPER"> (x, u)""",
}
HEIGHTS = (8, 9, 16, 5, 23)


def run_windows(text: str, close: float, **constants: np.ndarray) -> dict[str, object]:
    """Images of even and odd sizes on both providers; returns what the receipt says of the cluster.

    constants   of the model, beside filters
    """
    rng = np.random.default_rng(0)
    filters = {"v": (8, 3, 3, 3), "u": (8, 3, 1, 1)}
    read = {name: shape for name, shape in filters.items() if f"{name})" in text}
    known = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in read.items()}
    proto = parsed(f"{ENDS} {{ {text} }}", **known, **constants).SerializeToString()
    made, cpu = session(proto, device="host-cpu"), session_of(proto)
    for height, width in zip(HEIGHTS, reversed(HEIGHTS), strict=True):
        feeds = picture(2, 3, height, width)
        (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=close)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    return cluster


@pytest.mark.fast_devices
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_over_padded_images_of_any_size_are_compiled_once(name: str) -> None:
    cluster = run_windows(f"y = {WINDOWS[name]}", CLOSE)
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (len(HEIGHTS), 1)


@pytest.mark.fast_devices
@pytest.mark.parametrize("name", [n for n in WINDOWS if "Pool" in WINDOWS[n] and n != "norm"])
def test_windows_over_padded_quantized_images_are_compiled_once(name: str) -> None:
    text = f"""q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        p = {WINDOWS[name].replace("(x)", "(d)")} e = QuantizeLinear (p, s, z)
        y = DequantizeLinear (e, s, z)"""
    cluster = run_windows(text, 0.0501, s=np.float32(0.05), z=np.uint8(128))  # a quantum
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (len(HEIGHTS), 1)


def test_sizes_that_are_not_compiled_yet_shape_a_constant_on_the_cpu() -> None:
    """A table of positions is resized to the image, as vision transformers do."""
    text = f"""{ENDS} {{ s = Shape <start = 2, end = 4> (x) to = Concat <axis = 0> (first, s)
        r = Resize <mode = "cubic"> (table, , , to) y = Add (x, r) }}"""
    table = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float32)
    proto = parsed(text, 18, table=table, first=[1, 3]).SerializeToString()
    made, cpu = session(proto, partitioning="maximal"), session_of(proto)
    for height, width in zip(HEIGHTS, reversed(HEIGHTS), strict=True):
        feeds = picture(1, 3, height, width)
        (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=CLOSE)


@pytest.mark.fast_devices
def test_quantized_convolutions_of_channels_are_compiled_once_for_upright_and_wide_images() -> None:
    text = """q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
        f = DequantizeLinear (c, s, z) p = Conv <pads = [1,1,1,1], group = 3> (d, f)
        e = QuantizeLinear (p, t, z) y = DequantizeLinear (e, t, z)"""
    filters = np.random.default_rng(0).integers(0, 256, (24, 1, 3, 3), np.uint8)
    steps = {"s": np.float32(0.05), "t": np.float32(0.3), "z": np.uint8(128)}
    cluster = run_windows(text, 0.3001, c=filters, **steps)  # a quantum
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (len(HEIGHTS), 1)


ROWS = "(float[batch,rows,4] x)"
PIXELS = 'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
MOVES = {
    "the last row": f"{ROWS} => (y) {{ y = Gather <axis = 1> (x, last) }}",
    "mirrored": f'{ROWS} => (y) {{ y = Pad <mode = "reflect"> (x, pads) }}',
    "repeated": f'{ROWS} => (y) {{ y = Pad <mode = "edge"> (x, pads) }}',
    "greatest rows": f"{ROWS} => (y, z) {{ y, z = TopK <axis = 1> (x, three) }}",
    "least rows": f"{ROWS} => (y, z) {{ y, z = TopK <axis = 1, largest = 0> (x, three) }}",
    "where the last greatest is": f"""{ROWS} => (y) {{
        y = ArgMax <axis = 1, select_last_index = 1> (x) }}""",
    "padded to a multiple": f"""{ROWS} => (y) {{
        s = Shape <start = 1, end = 2> (x) m = Mod (s, eight) d = Sub (eight, m)
        p = Mod (d, eight) q = Concat <axis = 0> (none, p, zero) y = Pad (x, q) }}""",
    "nearest pixels, by half": f"""(float[batch,rows,4] x) => (y) {{
        y = Resize <mode = "nearest", {PIXELS}> (x, , half) }}""",
    "nearest pixels, by sizes": f"""(float[batch,rows,4] x) => (y) {{
        y = Resize <mode = "nearest", {PIXELS}, axes = [1, 2]> (x, , , sizes) }}""",
    "both ways": """(float[rows,batch,4] x) => (y, z) {
        y, z = LSTM <hidden_size = 2, direction = "bidirectional"> (x, w, r) }""",
}


@pytest.mark.fast_devices
@pytest.mark.parametrize("name", MOVES)
def test_rows_of_any_number_are_moved_by_one_compilation(name: str) -> None:
    rng = np.random.default_rng(0)
    numbers = {"last": [-1], "pads": [0, 2, 0, 0, 3, 0], "three": [3], "sizes": [12, 7]}
    numbers |= {"eight": [8], "none": [0, 0, 0, 0], "zero": [0]}
    known: dict[str, object] = {k: np.array(v) for k, v in numbers.items()}
    known["half"] = np.array([1, 0.5, 1.5], np.float32)
    known |= {k: rng.standard_normal((2, 8, n)).astype(np.float32) for k, n in (("w", 4), ("r", 2))}
    text = MOVES[name]
    read = {k: v for k, v in known.items() if re.search(rf"[(,] ?{k}[,)]", text)}
    proto = parsed(text, 18, **read).SerializeToString()
    made, cpu = session(proto, device="host-cpu"), session_of(proto)
    for shape in ((2, 9, 4), (3, 5, 4), (5, 40, 4), (7, 8, 4), (9, 17, 4)):
        feeds = picture(*shape)
        for got, want in zip(made.run(None, feeds), cpu.run(None, feeds), strict=True):
            np.testing.assert_allclose(got, want, atol=CLOSE)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (5, 1)


@pytest.mark.fast_devices
@pytest.mark.parametrize("batch", ["batch,4", "1,4", "batch"])
def test_products_of_two_quantized_activations_are_compiled_once(batch: str) -> None:
    text = f"""(float[{batch},rows,8] x, float[{batch},8,keys] z) => (y) {{
        a = QuantizeLinear (x, s, o) b = QuantizeLinear (z, s, o)
        c = QLinearMatMul (a, s, o, b, s, o, t, o) y = DequantizeLinear (c, t, o) }}"""
    steps = {"s": np.float32(0.05), "t": np.float32(0.1), "o": np.uint8(128)}
    proto = parsed(text, 18, **steps).SerializeToString()
    made, cpu = session(proto, device="host-cpu"), session_of(proto)
    for count, rows, keys in ((2, 5, 6), (40, 3, 3), (1, 9, 16), (17, 2, 5)):
        first = [count if size == "batch" else int(size) for size in batch.split(",")]
        feeds = {"x": picture(*first, rows, 8)["x"], "z": picture(*first, 8, keys)["x"]}
        (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=0.1001)  # a quantum
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    assert (cluster["device_runs"], cluster["compiled"]["compilations"]) == (4, 1)


WINDOWS_OF_IMAGES = """(float[a,b,c,4] x) => (y) {
    a = Shape <start = 0, end = 1> (x) h = Shape <start = 1, end = 2> (x) b = Div (h, eight)
    w = Shape <start = 2, end = 3> (x) c = Div (w, eight)
    parts = Concat <axis = 0> (a, b, eight, c, eight, four) p = Reshape (x, parts)
    q = Transpose <perm = [0,1,3,2,4,5]> (p) rows = Reshape (q, flat) y = Relu (rows) }"""
RANKS = {
    "windows of images": WINDOWS_OF_IMAGES,
    "sums": """(float[a,b,c,4] x, float[a,d,b,4] z) => (y) {
        u = Unsqueeze (x, one) v = Unsqueeze (z, three) t = Add (u, v)
        rows = Reshape (t, flat) y = Relu (rows) }""",
    "means": """(float[a,b,c,d] x) => (y) {
        t = Unsqueeze (x, two) m = ReduceMean <keepdims = 0> (t, axes) y = Relu (m) }""",
}
"""Tensors of more axes than NNAPI has, of which it merges some."""


@pytest.mark.fast_devices
@pytest.mark.parametrize("name", RANKS)
def test_one_compilation_is_for_batches_and_windows_of_one_too(name: str) -> None:
    text, scale = RANKS[name], 8 if name == "windows of images" else 1
    numbers = {"eight": [8], "four": [4], "flat": [-1, 4], "one": [1], "three": [3], "two": [2]}
    numbers |= {"axes": [1, 3]}
    read = {k: np.array(v) for k, v in numbers.items() if re.search(rf"[(,] ?{k}[,)]", text)}
    proto = parsed(text, 18, **read)
    content = proto.SerializeToString()
    made, cpu = session(content, partitioning="maximal"), session_of(content)
    for sizes in ((2, 3, 4, 5), (1, 3, 4, 2), (2, 1, 3, 2), (2, 3, 1, 2), (2, 3, 2, 1), (1,) * 4):
        known, feeds = dict(zip("abcd", sizes, strict=True)), {}
        known = {k: n * scale if k in "bc" else n for k, n in known.items()}
        for value in proto.graph.input:
            dims = value.type.tensor_type.shape.dim
            feeds[value.name] = picture(*(known.get(d.dim_param, d.dim_value) for d in dims))["x"]
        (got,), (want,) = (s.run(None, feeds) for s in (made, cpu))
        np.testing.assert_allclose(got, want, atol=CLOSE)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    done = cluster["device"], cluster["device_runs"], cluster["compiled"]["compilations"]
    assert done == ("host-cpu", 6, 1)


@pytest.mark.fast_devices
def test_what_the_fast_device_takes_for_each_size_alone_is_not_left_to_the_slow_one() -> None:
    """NNAPI has the six axes as one, whose sizes nnapi-reference is given, and host-cpu not."""
    content = serialized("""(float[a,b,8,c,8,4] x) => (y) {
        t = Transpose <perm = [0,1,3,2,4,5]> (x) y = Sigmoid (t) }""")
    made, cpu = session(content), session_of(content)
    for a, b, c in ((2, 3, 4), (1, 3, 2)):
        feeds = picture(a, b, 8, c, 8, 4)
        np.testing.assert_allclose(made.run(None, feeds), cpu.run(None, feeds), atol=CLOSE)
    (cluster,) = ep_nnapi.receipts()[-1]["clusters"]
    done = cluster["device"], cluster["device_runs"], cluster["compiled"]["compilations"]
    assert done == ("host-cpu", 2, 2)
