"""digits.onnx and the samples that ship beside it."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from ep_nnapi.sessions.cpu import session_of
from models import train_digits
from models.builder import Graph

MODELS = Path(train_digits.__file__).parent
MNIST = MODELS.parents[1] / "shared" / "models" / "mnist.onnx"

BLOCK = ["Conv", "Add", "Relu", "MaxPool"]
LENET = ["Reshape", *BLOCK, *BLOCK, "Reshape", "MatMul", "Add"]  # the first is of a weight


def scores(model, images):
    session = session_of(model)
    return np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])


def accuracy(model, samples):
    return np.mean(scores(model, samples["images"]).argmax(1) == samples["labels"])


def ops(model):
    return [node.op_type for node in model.graph.node]


def test_node_sequence():
    model = onnx.load(MODELS / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert ops(model) == LENET


@pytest.mark.skipif(not MNIST.exists(), reason="the MNIST model is not part of the repository")
def test_node_sequence_is_that_of_mnist():
    assert ops(onnx.load(MNIST)) == LENET


def test_reads_held_out_digits():
    held_out = np.load(MODELS / "digits" / "held_out.npz")
    assert held_out["images"].shape == (360, 1, 8, 8)
    assert accuracy(MODELS / "digits.onnx", held_out) >= 0.97


def test_samples_are_two_of_each_and_held_out():
    samples = np.load(MODELS / "digits" / "samples.npz")
    assert samples["images"].shape == (20, 1, 8, 8)
    assert samples["images"].dtype == np.float32
    assert sorted(samples["labels"]) == [digit for digit in range(10) for _ in range(2)]
    held_out = {image.tobytes() for image in np.load(MODELS / "digits" / "held_out.npz")["images"]}
    assert all(image.tobytes() in held_out for image in samples["images"])


@pytest.mark.parametrize("digit", range(10))
def test_pngs_are_the_samples(digit):
    samples = np.load(MODELS / "digits" / "samples.npz")
    with Image.open(MODELS / "digits" / f"{digit}.png") as picture:
        assert picture.mode == "L"
        pixels = np.asarray(picture)
    image = samples["images"][list(samples["labels"]).index(digit)]
    assert np.array_equal(pixels.astype(np.float32) / 255, image[0])


def test_calibration_digits_are_not_held_out():
    held_out = {image.tobytes() for image in np.load(MODELS / "digits" / "held_out.npz")["images"]}
    calibration = np.load(MODELS / "digits" / "calibration.npz")["images"]
    assert not any(image.tobytes() in held_out for image in calibration)


@pytest.mark.long
def test_training_reproduces_the_model():
    pytest.importorskip("sklearn")
    seen, held_out = train_digits.load()
    params = train_digits.train(seen, epochs=3)
    model = train_digits.to_onnx(params)
    shipped = onnx.load(MODELS / "digits.onnx")
    expected = [structure(node) for node in shipped.graph.node]
    assert [structure(node) for node in model.graph.node] == expected
    wanted = [(w.name, w.dims) for w in shipped.graph.initializer]
    assert [(w.name, w.dims) for w in model.graph.initializer] == wanted
    assert accuracy(model.SerializeToString(), vars_of(held_out)) > 0.9  # 3 epochs of 30


def structure(node):
    return node.SerializeToString(deterministic=True)


def vars_of(samples):
    return {"images": samples.images, "labels": samples.labels}


def test_network_computes_what_the_file_says():
    rng = np.random.default_rng(5)
    params = train_digits.initial(rng)
    images = rng.random((4, 1, 8, 8), dtype=np.float32)
    ours = train_digits.forward(params, images).scores
    theirs = scores(train_digits.to_onnx(params).SerializeToString(), images)
    assert np.allclose(ours, theirs, atol=1e-5)  # sums of 144 float32 products in another order


def test_gradients_are_slopes():
    rng = np.random.default_rng(6)
    params = {name: value.astype(np.float64) for name, value in train_digits.initial(rng).items()}
    samples = train_digits.Samples(rng.random((6, 1, 8, 8)), np.arange(6))
    slopes = train_digits.gradients(params, samples)
    for name, value in params.items():
        direction = rng.standard_normal(value.shape)
        step = 1e-6
        rise = loss(params | {name: value + step * direction}, samples) - loss(
            params | {name: value - step * direction}, samples
        )
        # float64 differences of step 1e-6: about eight digits remain
        assert math.isclose(rise / (2 * step), np.sum(slopes[name] * direction), rel_tol=1e-4), name


def loss(params, samples):
    z = train_digits.forward(params, samples.images).scores
    likelihood = z - np.log(np.exp(z).sum(1, keepdims=True))
    return -np.mean(likelihood[np.arange(len(z)), samples.labels])


def test_writes_whole_directory(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("sys.argv", ["train_digits", str(tmp_path / "new")])
    trained = train_digits.initial(np.random.default_rng(7))
    monkeypatch.setattr(train_digits, "train", lambda samples: trained)
    train_digits.main()
    written = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*")}
    shipped = {f"digits/{path.name}" for path in (MODELS / "digits").iterdir()}
    assert written == shipped | {"digits.onnx"}
    assert "360 held-out digits" in capsys.readouterr().out
    for name in ("samples", "held_out", "calibration"):
        ours = np.load(MODELS / "digits" / f"{name}.npz")
        theirs = np.load(tmp_path / "new" / "digits" / f"{name}.npz")
        assert all(np.array_equal(ours[key], theirs[key]) for key in ("images", "labels"))


def test_graph_renames_outputs():
    g = Graph("two")
    x = g.add("Relu", g.input("x", (1, 2)))
    y = g.add("Neg", x)
    g.output(x, "middle")
    g.output(y, "end")
    model = g.model()
    assert [list(node.input) for node in model.graph.node] == [["x"], ["middle"]]
    assert [list(node.output) for node in model.graph.node] == [["middle"], ["end"]]
