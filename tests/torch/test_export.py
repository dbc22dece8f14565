"""PyTorch's exporter: the model, its file, and where an operator comes from."""

from pathlib import Path

import onnx
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi.torch import export  # noqa: E402
from ep_nnapi.torch.export import line_of, model_of, to_onnx, traced, write  # noqa: E402
from tests.torch.networks import IMAGE, seeded, small_cnn  # noqa: E402

pytestmark = pytest.mark.torch


def test_modules_keep_their_hooks_and_outputs():
    module = small_cnn()
    traced(module, (seeded(*IMAGE),), {}, None)
    assert not module._forward_hooks
    assert isinstance(module(seeded(*IMAGE)), torch.Tensor)


def test_source_lines_of_traced_nodes():
    exported, _ = traced(small_cnn(), (seeded(*IMAGE),), {}, None)
    lines = {str(n.target): line_of(n) for n in exported.graph.nodes}
    assert lines["aten.conv2d.default"].module == "0"
    assert lines["aten.linear.default"].module == "5"
    assert lines["aten.conv2d.default"].file.endswith("torch/nn/modules/conv.py")


def test_large_models_have_their_weights_beside_them(tmp_path, monkeypatch):
    program = to_onnx(traced(small_cnn(), (seeded(*IMAGE),), {}, None)[0])
    with model_of(program) as model:
        assert isinstance(model, bytes)
    write(program, tmp_path / "small.onnx")
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(export, "EXTERNAL_DATA_THRESHOLD", 10)
    with model_of(program) as model:
        assert isinstance(model, str)
        assert onnx.load(model).graph.initializer
    assert not Path(model).exists()
