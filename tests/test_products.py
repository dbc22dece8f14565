"""Products of uint8 and int8: exact, and saturating as on x86-64 processors without VNNI."""

import ast
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ep_nnapi.sessions import cpu
from tests import saturating
from tests.end_to_end import quantized as q
from tests.operators.test_conversion import conv, feeds, matmul, one
from tests.products import computed
from tests.products import saturating as saturated
from tests.programs import ran

ROOT = Path(__file__).parents[1]
U8, S8 = np.uint8, np.int8
ROW, COLUMN = np.full((1, 64), 255, U8), np.full((64, 1), 127, S8)
SATURATED = 1_048_544  # 32 pairs of products, each 2 ** 15 - 1
EXACT = 2_072_640


def two_inputs() -> onnx.ModelProto:
    return one("MatMulInteger", [(U8, (1, 64)), (S8, (64, 1))], [0, 1], np.int32)


def constant_weights() -> onnx.ModelProto:
    return one("MatMulInteger", [(U8, (1, 64))], [0, COLUMN], np.int32)


CASES = {
    "MatMulInteger": one(
        "MatMulInteger", [(U8, (3, 7)), (S8, (7, 5))], [0, 1, U8(120), S8(-9)], np.int32
    ),
    "ConvInteger": one(
        "ConvInteger",
        [(U8, (1, 4, 7, 6))],
        [0, np.arange(72, dtype=S8).reshape(4, 2, 3, 3), U8(120), S8(3)],
        np.int32,
        pads=[1, 0, 2, 1],
        strides=[2, 1],
        group=2,
    ),
    "QLinearMatMul": matmul(U8),
    "QLinearConv": conv(per_channel=True)(U8),
}


@pytest.mark.parametrize("name", CASES)
def test_formulas_are_onnxs(name: str) -> None:
    model = CASES[name]
    given = feeds(model)
    # quantized results may be one apart: ONNX's evaluator scales in float32, which moves ties
    assert q.apart(computed(model, given), ReferenceEvaluator(model).run(None, given)) <= (
        1 if name.startswith("QLinear") else 0
    )


def test_sums_of_two_products_saturate_in_16_bits() -> None:
    assert saturated(ROW, COLUMN).item() == SATURATED
    assert saturated(ROW[:, :3], COLUMN[:3]).item() == 32767 + 255 * 127  # the last has no pair
    assert saturated(ROW, COLUMN.astype(U8)).item() == EXACT  # uint8 x uint8 does not


def test_the_saturating_provider_saturates_on_every_processor() -> None:
    session = saturating.session_of(two_inputs().SerializeToString())
    assert session.run(None, {"x0": ROW, "x1": COLUMN})[0].item() == SATURATED


def test_constant_weights_are_exact_on_every_processor() -> None:
    content = constant_weights().SerializeToString()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    for made in (cpu.session_of(content), saturating.session_of(content, options)):
        assert made.run(None, {"x0": ROW})[0].item() == EXACT


def test_products_of_int8_load_though_onnx_runtime_cannot_make_them_exact() -> None:
    model = matmul(S8)
    given = feeds(model)
    got = cpu.session_of(model.SerializeToString()).run(None, given)
    assert q.apart(got, computed(model, given)) <= 1  # ties


@pytest.mark.parametrize(("sums", "verdict"), [(SATURATED, True), (EXACT, False)])
def test_the_probe_tells_the_two_apart(sums: int, verdict: bool, monkeypatch: pytest.MonkeyPatch):
    class Session:
        def run(self, _names: object, _feeds: object) -> list[np.ndarray]:
            return [np.array([[sums]], np.int32)]

    monkeypatch.setattr(cpu, "session_of", lambda *_, **__: Session())
    assert cpu.saturates.__wrapped__() is verdict


def cpu_sessions(path: Path) -> list[int]:
    """The lines of a file that make a session on the CPU provider alone."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("InferenceSession"):
            chosen = next((ast.unparse(k.value) for k in node.keywords if k.arg == "providers"), "")
            if chosen in ("['CPUExecutionProvider']", "[CPU]", "CPU"):
                found.append(node.lineno)
    return found


def test_sessions_of_the_cpu_provider_are_made_in_one_place() -> None:
    """So that each has the option for exact products, and can be made to saturate in tests."""
    files = [p for part in ("ep_nnapi", "tests") for p in (ROOT / part).rglob("*.py")]
    making = [p for p in files if "InferenceSession(" in p.read_text()]
    assert {p.name: lines for p in making if (lines := cpu_sessions(p))} == {}


@pytest.mark.long
def test_no_test_compares_a_uint8_by_int8_product_with_the_cpu_provider() -> None:
    paths = ["tests/operators/test_conversion.py", "tests/operators/test_conversion_dynamic.py"]
    paths += ["tests/models/test_quantized.py"]
    paths += [str(p.relative_to(ROOT)) for p in (ROOT / "tests/end_to_end").glob("test_*quant*.py")]
    command = [sys.executable, "-m", "pytest", "-p", "tests.saturating", "-m", "not long", *paths]
    ran(*command)
