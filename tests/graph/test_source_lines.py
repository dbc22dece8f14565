"""Source lines of nodes: PyTorch's metadata, as its exporter writes it and as nobody should."""

from pathlib import Path

import onnx
import pytest

from ep_nnapi.errors import SourceLine
from ep_nnapi.graph.source_lines import SourceLines, source_line, source_lines
from tests.provider.test_planner import model
from tests.source_lines import add, recorded

FILE = "/home/me/net.py"
LINE = SourceLine("layers.0", FILE, 12, "y = self.act(self.conv(x))")


def one(**entries: str) -> SourceLine | None:
    """The source line of a node with these entries."""
    proto = model("Abs x -> y")
    add(proto.graph.node[0], "pkg.torch.onnx.fx_node", "%abs")
    for key, value in entries.items():
        add(proto.graph.node[0], key.replace("__", "."), value)
    return source_lines(proto.SerializeToString()).of("Abs_y")


def test_the_innermost_line_outside_of_pytorch():
    proto = recorded(model("Abs x -> a", "Neg a -> y"), "layers.0", FILE)
    found = source_lines(proto.SerializeToString())
    assert found.by_node == {"Abs_a": LINE, "Neg_y": LINE}
    assert str(LINE) == "layers.0 at /home/me/net.py:12"


def test_a_file_is_read_without_its_external_data(tmp_path: Path):
    proto = recorded(model("Add x w -> y", constants="w"), "layers.0", FILE)
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    assert source_lines(str(path)).of("Add_y") == LINE


def test_a_renamed_node_is_found_by_its_outputs():
    found = SourceLines({}, {"b": LINE})
    assert found.of("fused", ("a", "b")) == LINE
    assert found.of("fused", ("a",)) is None


def test_subgraphs_have_source_lines_too():
    inner = recorded(model("Abs x -> y"), "layers.0", FILE).graph
    node = onnx.helper.make_node("If", ["c"], ["z"], "choice", then_branch=inner, else_branch=inner)
    graph = onnx.helper.make_graph([node], "g", [], [])
    found = source_lines(onnx.helper.make_model(graph).SerializeToString())
    assert found.of("Abs_y") == LINE


def test_pytorch_alone_is_better_than_nothing():
    stack = 'File "/x/site-packages/torch/nn/modules/conv.py", line 5, in forward\n    return y'
    found = one(pkg__torch__onnx__stack_trace=stack)
    assert found == SourceLine("", "/x/site-packages/torch/nn/modules/conv.py", 5, "return y")


@pytest.mark.parametrize(
    "library", ["lib/python3.11/collections/__init__.py", "src/ep_nnapi/torch/inference_graph.py"]
)
def test_python_and_this_package_are_not_the_users_code(library: str):
    stack = f'File "{FILE}", line 3, in forward\n    return f(x)\n  File "/{library}", line 9, in f'
    assert source_line("", stack) == SourceLine("", FILE, 3, "return f(x)")


def test_a_network_of_an_installed_package_has_lines_there():
    network = "/env/lib/python3.11/site-packages/torchvision/models/resnet.py"
    stack = f'File "{FILE}", line 3, in forward\n    y\n  File "{network}", line 9, in f\n    x'
    assert source_line("net", stack) == SourceLine("net", network, 9, "x")


def test_clauses():
    assert LINE.clause == " in layers.0 at /home/me/net.py:12"
    assert SourceLine("", FILE, 3).clause == " at /home/me/net.py:3"
    assert SourceLine("encoder").clause == " in encoder"
    assert SourceLine("").clause == ""


def test_an_operation_outside_of_any_module():
    scopes = "['_empty_nn_module_stack_from_metadata_hook_x', 'relu']"
    assert one(pkg__torch__onnx__name_scopes=scopes) is None


def test_a_node_without_a_name_is_found_by_its_first_output():
    assert SourceLines({}, {"b": LINE}).of("b") == LINE


def test_a_namespace_alone_names_the_module():
    """Model Explorer's convention, which other exporters follow."""
    assert one(namespace=": Net/encoder.0: Block/op: aten.op") == SourceLine("encoder.0")
    assert str(SourceLine("encoder.0")) == "encoder.0"


def test_a_node_of_the_outermost_module_has_a_line_only():
    stack = f'File "{FILE}", line 3, in forward\n    return x'
    found = one(pkg__torch__onnx__stack_trace=stack, pkg__torch__onnx__name_scopes="['', 'abs']")
    assert str(found) == f"{FILE}:3"


@pytest.mark.parametrize(
    "scopes", ["[" * 5000, "['a'", "{'a': 1}", "[1, 2]", "__import__('os').abort()", "", "[]"]
)
def test_scopes_that_are_no_list_of_texts(scopes: str):
    assert one(pkg__torch__onnx__name_scopes=scopes) is None


@pytest.mark.parametrize(
    "stack", ['File "a', 'File "a", line x, in f', "no frame", 'File "a", line ' + "9" * 5000]
)
def test_stack_traces_without_a_frame(stack: str):
    assert one(pkg__torch__onnx__stack_trace=stack) is None


def test_an_entry_of_65536_characters_is_read_and_a_longer_one_is_not():
    frame = f'File "{FILE}", line 3, in f\n    '
    code = "x" * (65536 - len(frame))
    assert one(pkg__torch__onnx__stack_trace=frame + code) == SourceLine("", FILE, 3, code)
    assert one(pkg__torch__onnx__stack_trace=frame + code + "x") is None


@pytest.mark.parametrize("content", [b"", b"no model, namespace", b"pkg.torch.onnx. \xff\xff"])
def test_no_model(content: bytes, tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(content)
    assert source_lines(content) == source_lines(str(tmp_path / "m.onnx")) == SourceLines()


def test_a_model_without_metadata_is_not_parsed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx, "load_from_string", None)
    assert source_lines(model("Abs x -> y").SerializeToString()) == SourceLines()
