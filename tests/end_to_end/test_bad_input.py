"""Input, options, models and nodes that cannot be used: one clear sentence; the rest goes on."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.errors import Rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.provider import planner as planning
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import CPU, DIGITS, NAME, WAYS, quiet
from tests.faulty import FaultyDevice, installed
from tests.onnx_graph import model_of, nodes_of, serialized

CONTENT = DIGITS.path.read_bytes()


def one_sentence(error: BaseException) -> bool:
    return "\n" not in str(error).strip()


# models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [ep_nnapi.check, ep_nnapi.run], ids=["check", "run"])
@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("nowhere.onnx", "nowhere.onnx: no such file"),
        (Path("nowhere.onnx"), "nowhere.onnx: no such file"),
        ("/dev/null", "/dev/null: it is no regular file; copy the model into one"),
        ("no\0where.onnx", "which has a NUL character"),
        ("n" * 256, "n: File name too long"),
        (b"", "the model is empty"),
        (b"this is no model", "the model: ONNX Runtime cannot load it"),
        (CONTENT[: len(CONTENT) // 2], "the model: ONNX Runtime cannot load it"),
        (CONTENT[:-1], "the model: ONNX Runtime cannot load it"),
        (CONTENT.replace(b"image", b"imag\xb2"), r"the name b'imag\xb2' is not UTF-8; rename it"),
    ],
    ids=["missing", "path", "device", "NUL", "long", "empty", "text", "half", "cut", "no UTF-8"],
)
def test_models_that_cannot_be_loaded(ask, model, says: str):
    with pytest.raises(ep_nnapi.ModelError) as caught:
        ask(model)
    assert says in str(caught.value)
    assert one_sentence(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_of_a_truncated_model_is_onnxruntimes_error(way: str, tmp_path: Path):
    (tmp_path / "cut.onnx").write_bytes(CONTENT[:3000])
    with pytest.raises(Exception, match=r"cut\.onnx"):
        WAYS[way](str(tmp_path / "cut.onnx"), quiet())


# options -------------------------------------------------------------------------------------

BAD = [
    ({"flags": "USE_FP32"}, "flag 'USE_FP32' is unknown"),
    ({"flags": "16"}, "flags is 16"),
    ({"flags": "12"}, "CPU_DISABLED and CPU_ONLY exclude each other"),
    ({"flags": "CPU_DISABLED"}, "flag CPU_DISABLED leaves no device"),
    ({"colour": "red"}, "option 'colour' is unknown"),
    ({"feature_level": "9"}, "feature_level is 9; it must be 1 to 8"),
    ({"feature_level": "0"}, "feature_level is 0; it must be 1 to 8"),
    ({"api_level": "32"}, "beyond 31 use feature_level"),
    ({"api_level": "30", "feature_level": "4"}, "both given"),
    ({"device": "npu"}, "device 'npu' is unknown; there are"),
    ({"fallback": "gpu"}, "fallback is 'gpu'"),
]
bad = pytest.mark.parametrize(("options", "says"), BAD, ids=[str(o) for o, _ in BAD])


@bad
def test_append_refuses_at_once(options: dict[str, str], says: str):
    settings = quiet()
    with pytest.raises(ep_nnapi.OptionError) as caught:
        ep_nnapi.append_execution_provider(settings, **options)
    assert says in str(caught.value)
    assert one_sentence(caught.value)
    assert not settings.has_providers()


@pytest.mark.parametrize("ask", [ep_nnapi.check, ep_nnapi.run], ids=["check", "run"])
@bad
def test_check_and_run_refuse(ask, options: dict[str, str], says: str):
    with pytest.raises(ep_nnapi.OptionError, match=re.escape(says)):
        ask(DIGITS.path, **options)


@pytest.mark.filterwarnings("ignore")  # onnxruntime's own, while it falls back
@bad
def test_providers_argument_prints_the_sentence(capfd, options: dict[str, str], says: str):
    """ONNX Runtime turns an error of a provider that it makes itself into a session on the CPU."""
    session = WAYS["providers"](str(DIGITS.path), quiet(), **options)
    assert session.get_providers() == [CPU]
    printed = capfd.readouterr()
    assert says in printed.out + printed.err
    assert "Traceback" not in printed.out + printed.err


def test_flags_given_twice():
    with pytest.raises(ep_nnapi.OptionError, match="flags is given twice"):
        ep_nnapi.append_execution_provider(quiet(), ep_nnapi.NnapiFlag.USE_FP16, flags="USE_NCHW")
    assert ep_nnapi.append_execution_provider(quiet(), flags=1) is None


def test_appending_twice():
    settings = quiet()
    ep_nnapi.append_execution_provider(settings)
    with pytest.raises(ep_nnapi.OptionError, match="appended to these session options already"):
        ep_nnapi.append_execution_provider(settings)


# inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 1, 9, 8), (2, 1, 8, 8), (1, 8, 8)])
def test_wrong_shaped_inputs_are_onnxruntimes_error(way: str, shape: tuple[int, ...]):
    """ONNX Runtime compares shapes before any provider is asked; the session goes on."""
    session = WAYS[way](str(DIGITS.path), quiet())
    with pytest.raises(InvalidArgument, match="image"):
        DIGITS.run(session, np.zeros(shape, np.float32))
    assert DIGITS.run(session, DIGITS.random(1)[0]).shape == (1, 10)


def test_wrong_element_type_is_onnxruntimes_error():
    session = WAYS["providers"](str(DIGITS.path), quiet())
    with pytest.raises(InvalidArgument, match="float"):
        DIGITS.run(session, np.zeros((1, 1, 8, 8)))


def symbolic_sum() -> bytes:
    """y [n, 3] = a [n, 3] + b [m, 3]."""
    text = "(float[n,3] a, float[m,3] b) => (float[?,3] y) { y = Add (a, b) }"
    return serialized(text)


@pytest.mark.parametrize("way", WAYS)
def test_sizes_that_do_not_go_together_are_an_error_of_the_run(way: str):
    session = WAYS[way](symbolic_sum(), quiet())
    a, b = np.ones((4, 3), np.float32), np.ones((2, 3), np.float32)
    with pytest.raises(Exception, match=r"[4ab].*[2ab]"):
        session.run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(session.run(None, {"a": a, "b": a})[0], a + a)


# devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_failing_device_is_an_error_with_its_own_sentence(way: str):
    with installed(FaultyDevice(fails_at=frozenset({-1}))):
        session = WAYS[way](str(DIGITS.path), quiet(), fallback="none")
        with pytest.raises(Fail) as caught:
            DIGITS.run(session, DIGITS.random(1)[0])
    assert "ANeuralNetworksExecution_compute returned ANEURALNETWORKS_OP_FAILED" in str(
        caught.value
    )


# what planning does not foresee ---------------------------------------------------------------


def test_a_defect_in_planning_is_said_by_check_and_leaves_a_session_to_the_cpu(monkeypatch, capfd):
    def broken(*_: object) -> None:
        raise KeyError("w")

    monkeypatch.setattr("ep_nnapi.provider.planner.dag_of", broken)
    with pytest.raises(ep_nnapi.NnapiError, match=r"planning failed: KeyError\('w'\)"):
        ep_nnapi.check(DIGITS.path)
    session = WAYS["append_execution_provider"](str(DIGITS.path), quiet())
    assert "KeyError: 'w'" in capfd.readouterr().err
    assert DIGITS.run(session, DIGITS.random(1)[0]).shape == (1, 10)
    assert session.get_providers() == [NAME, CPU]


def test_a_model_that_nothing_is_taken_of_runs_on_the_cpu():
    everything = ",".join({n.op_type for n in onnx.load(DIGITS.path).graph.node} | {"Gemm"})
    session = WAYS["append_execution_provider"](str(DIGITS.path), quiet(), exclude=everything)
    x = DIGITS.random(1)[0]
    np.testing.assert_array_equal(DIGITS.run(session, x), DIGITS.run(DIGITS.cpu(), x))
    assert isinstance(session, onnxruntime.InferenceSession)


X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def model(*nodes: onnx.NodeProto, **constants: object) -> bytes:
    """From x to y, both [2, 3], between a Relu at the start and a Neg at the end."""
    first, last = nodes_of("a = Relu (x) y = Neg (z)")
    made = model_of([first, *nodes, last], {"x": (2, 3)}, {"y": (2, 3)}, constants)
    return made.SerializeToString()


def optional() -> bytes:
    """With an attribute that is a type, which ONNX Runtime's C API does not read."""
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
    return model(
        helper.make_node("Optional", ["a"], ["o"], "boxed", type=kind),
        helper.make_node("OptionalGetElement", ["o"], ["z"], "unboxed"),
    )


def deep(rank: int) -> bytes:
    """With a tensor of that rank in between."""
    text = "[deep] d = Reshape (a, many) [abs] e = Abs (d) [flat] z = Reshape (e, few)"
    return model(*nodes_of(text), many=[2, 3, *[1] * (rank - 2)], few=[2, 3])


def stride(size: int) -> bytes:
    """With a convolution whose stride is `size`."""
    window = f"kernel_shape = [1, 1], strides = [{size}, {size}], pads = [0, 0, 1, 2]"
    text = f"""[up] i = Reshape (a, image) [conv] c = Conv <{window}> (i, w)
        [add] s = Add (a, c) [down] z = Reshape (s, few)"""
    w = np.ones((1, 1, 1, 1), np.float32)
    return model(*nodes_of(text), image=[1, 1, 2, 3], w=w, few=[2, 3])


def computes_the_same(content: bytes) -> None:
    cpu = session_of(content, quiet())
    ours = WAYS["append_execution_provider"](content, quiet())
    np.testing.assert_array_equal(ours.run(None, {"x": X})[0], cpu.run(None, {"x": X})[0])


def refused(content: bytes) -> dict[str, Rejection]:
    """Reasons why nodes are left to the CPU, by name; Relu and Neg are always taken."""
    report = ep_nnapi.check(content)
    assert {"a", "y"} <= {name for c in report.clusters for name in c.nodes}
    return {r.node: r for r in report.rejections}


def test_an_attribute_of_a_kind_that_is_not_read():
    assert refused(optional()).keys() == {"boxed", "unboxed"}
    computes_the_same(optional())


def test_a_rank_that_is_not_read():
    # Abs of rank 64 is taken as a row
    assert not refused(deep(64))
    why = refused(deep(65))
    assert why.keys() == {"deep", "abs", "flat"}
    assert why["abs"].reason is Reason.RANK
    assert why["abs"].detail == "d has rank 65; the maximum is 64"
    computes_the_same(deep(64))
    computes_the_same(deep(65))


@pytest.mark.parametrize("size", [2**31, 2**62])
def test_a_stride_of_more_than_32_bits(size: int):
    assert not refused(stride(2**31 - 1))
    assert refused(stride(size))["conv"].reason is Reason.ATTRIBUTE
    computes_the_same(stride(size))


def test_a_defect_in_lowering_costs_its_node(monkeypatch: pytest.MonkeyPatch):
    build = planning.Planner._compile

    def defective(self, cluster, verdicts, readers):
        if any(verdicts.nodes[i].op_type == "Abs" for i in cluster):
            raise ZeroDivisionError("division by zero")
        return build(self, cluster, verdicts, readers)

    monkeypatch.setattr(planning.Planner, "_compile", defective)
    why = refused(model(*nodes_of("[abs] z = Abs (a)")))
    assert why.keys() == {"abs"}
    expected = "its cluster cannot be compiled, which is a defect of ep-nnapi: division by zero"
    assert why["abs"].detail == expected


def test_planning_that_fails_is_no_report(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    """ONNX Runtime goes on without the provider, so check must not say 0 of 0 nodes."""
    from ep_nnapi.ort import ep

    def failing(handle, reader):
        raise ep.OrtError("onnxruntime: there is no such graph")

    monkeypatch.setattr(ep, "read_graph", failing)
    with pytest.raises(ep_nnapi.NnapiError, match="there is no such graph"):
        ep_nnapi.check(deep(4))
    (tmp_path / "m.onnx").write_bytes(deep(4))
    assert main(["check", str(tmp_path / "m.onnx")]) == 3
    printed = capsys.readouterr()
    assert "0 of 0" not in printed.out
    assert printed.err.splitlines()[-1] == "ep-nnapi: onnxruntime: there is no such graph"
