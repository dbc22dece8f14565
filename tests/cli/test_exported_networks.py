"""Networks of PyTorch through every verb, as its exporter writes them."""

from pathlib import Path

import pytest

from tests.cli.test_verbs import Command, assert_every_verb_works

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.torch.zoo import NETWORKS  # noqa: E402

pytestmark = pytest.mark.torch
# Of each kind one: pictures, sound, text with ids, attention, recurrent layers, boxes.
NAMES = [
    "SqueezeNet",
    "MobileNetV3",
    "audio classifier",
    "BERT",
    "ViT",
    "GPT-2",
    "transformer encoder",
    "LSTM tagger",
    "detector with NMS",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_verb(cli: Command, name: str, tmp_path: Path):
    network = NETWORKS[name]()
    program = torch.onnx.export(network.trained(), network.args, dynamo=True, verbose=False)
    program.save(tmp_path / "model.onnx")
    assert_every_verb_works(cli, tmp_path / "model.onnx", tmp_path)
