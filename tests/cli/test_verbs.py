"""Networks through every verb of the command line, as a new user would try them."""

import shutil
from pathlib import Path

import onnx
import pytest

from models import zoo
from models.quantized import quantized
from tests.cli.verbs import Command, assert_every_verb_works
from tests.end_to_end.sessions import EXAMPLES, Example
from tests.end_to_end.test_zoo import SMALL, built

pytestmark = pytest.mark.long
OTHERS = [name for name in zoo.MODELS if name not in SMALL and name != "vgg_small"]
# One classifier and one network with pictures as outputs stand for those of convolutions: each
# takes most of a minute.
CONVOLUTIONAL = ["mobilenet_v2", "segmentation"]


@pytest.mark.parametrize("name", zoo.MODELS)
def test_float_networks(cli: Command, name: str, tmp_path: Path):
    onnx.save(built(name, published=False), tmp_path / "model.onnx")
    assert_every_verb_works(cli, tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize("name", [*CONVOLUTIONAL, *OTHERS])
def test_quantized_networks(cli: Command, name: str, tmp_path: Path):
    onnx.save(quantized(name, "u8s8", size=SMALL.get(name)), tmp_path / "model.onnx")
    assert_every_verb_works(cli, tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize("example", EXAMPLES)
def test_files(cli: Command, example: Example, tmp_path: Path):
    model = Path(shutil.copy(example.path, tmp_path / "model.onnx"))
    assert_every_verb_works(cli, model, tmp_path)
