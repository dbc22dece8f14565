"""Trains `digits.onnx`, a small LeNet, in pure numpy.

    python -m models.train_digits [DIRECTORY]

writes `digits.onnx` and the samples in `digits/` beside it. Training is seeded; on the same numpy
and BLAS it gives the same bytes.

Data: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, doi:10.24432/C50P49, licence CC BY 4.0; the 1797 images of 8x8 pixels (0 to 16) that
scikit-learn carries as `sklearn.datasets.load_digits`. 360 of them, drawn at random, are held out.
They are by the same 13 writers as the rest: the accuracy on them says nothing of other hands.
"""

import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from numpy.lib.stride_tricks import sliding_window_view

from models.builder import Graph

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Params = dict[str, Floats]

HELD_OUT = 360
CALIBRATION = 100
SEED = 20


@dataclass(frozen=True, slots=True)
class Samples:
    """`images` [N, 1, 8, 8] in 0 to 1 (a PNG's bytes over 255), `labels` [N] in 0 to 9."""

    images: Floats
    labels: Ints

    def __getitem__(self, rows: slice | Ints) -> "Samples":
        return Samples(self.images[rows], self.labels[rows])

    def save(self, path: Path) -> None:
        """Writes an .npz with the arrays `images` and `labels`."""
        np.savez_compressed(path, images=self.images, labels=self.labels)


def load() -> tuple[Samples, Samples]:
    """The digits to train on and those held out."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (np.rint(pixels.reshape(-1, 1, 8, 8) * 255 / 16) / 255).astype(np.float32)
    everything = Samples(images, labels.astype(np.int64))
    order = np.random.default_rng(SEED).permutation(len(labels))
    return everything[order[HELD_OUT:]], everything[order[:HELD_OUT]]


def initial(rng: np.random.Generator) -> Params:
    """He-initialised weights under the names they have in the ONNX file."""

    def he(*shape: int, fan_in: int) -> Floats:
        return rng.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))

    return {
        "conv1_weight": he(16, 1, 5, 5, fan_in=25),
        "conv1_bias": np.zeros((16, 1, 1), np.float32),
        "conv2_weight": he(32, 16, 3, 3, fan_in=144),
        "conv2_bias": np.zeros((32, 1, 1), np.float32),
        "dense_weight": he(32, 2, 2, 10, fan_in=128),
        "dense_bias": np.zeros((1, 10), np.float32),
    }


def convolve(x: Floats, weight: Floats) -> Floats:
    """`x` [N, C, H, W] with `weight` [M, C, K, K], K odd, padded to [N, M, H, W]."""
    summed: Floats = np.tensordot(windows(x, weight), weight, ([1, 4, 5], [1, 2, 3]))
    return np.moveaxis(summed, 3, 1)


def windows(x: Floats, weight: Floats) -> Floats:
    """Windows of each output of `convolve`: [N, C, H, W, K, K]."""
    edge = weight.shape[2] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    return sliding_window_view(padded, weight.shape[2:], axis=(2, 3))


def blocks(x: Floats) -> Floats:
    """The 2x2 blocks of `x` [N, C, H, W], as [N, C, H/2, 2, W/2, 2]."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def max_pool(x: Floats) -> Floats:
    """The largest of each 2x2 block of `x`."""
    largest: Floats = blocks(x).max((3, 5))
    return largest


def unpool(slope: Floats, x: Floats, pooled: Floats) -> Floats:
    """The gradient of `max_pool`: a block's slope, shared by the pixels that hold its maximum."""

    def enlarge(y: Floats) -> Floats:
        return y.repeat(2, 2).repeat(2, 3)

    holds: Floats = (x == enlarge(pooled)).astype(np.float32)
    share: Floats = slope / blocks(holds).sum((3, 5))
    return holds * enlarge(share)


@dataclass(frozen=True, slots=True)
class Pass:
    """Everything one forward pass computes that the backward pass needs."""

    relu1: Floats
    pool1: Floats
    relu2: Floats
    pool2: Floats
    scores: Floats


def forward(p: Params, x: Floats) -> Pass:
    """The network on `x` [N, 1, 8, 8]; `scores` [N, 10] are its answer."""
    relu1 = np.maximum(convolve(x, p["conv1_weight"]) + p["conv1_bias"], 0)
    pool1 = max_pool(relu1)
    relu2 = np.maximum(convolve(pool1, p["conv2_weight"]) + p["conv2_bias"], 0)
    pool2 = max_pool(relu2)
    scores = pool2.reshape(len(x), 128) @ p["dense_weight"].reshape(128, 10) + p["dense_bias"]
    return Pass(relu1, pool1, relu2, pool2, scores)


def accuracy(p: Params, samples: Samples) -> float:
    """The fraction of `samples` that the network reads right."""
    return float(np.mean(forward(p, samples.images).scores.argmax(1) == samples.labels))


def gradients(p: Params, samples: Samples) -> Params:
    """The slope of the mean cross-entropy over `samples`, parameter by parameter."""
    x, n = samples.images, len(samples.labels)
    seen = forward(p, x)
    odds = np.exp(seen.scores - seen.scores.max(1, keepdims=True))
    d_scores = odds / odds.sum(1, keepdims=True)
    d_scores[np.arange(n), samples.labels] -= 1
    d_scores /= n
    d_pool2 = (d_scores @ p["dense_weight"].reshape(128, 10).T).reshape(seen.pool2.shape)
    d_conv2 = unpool(d_pool2, seen.relu2, seen.pool2) * (seen.relu2 > 0)
    turned = p["conv2_weight"].swapaxes(0, 1)[:, :, ::-1, ::-1]
    d_conv1 = unpool(convolve(d_conv2, turned), seen.relu1, seen.pool1) * (seen.relu1 > 0)
    return {
        "conv1_weight": weight_slope(d_conv1, x, p["conv1_weight"]),
        "conv1_bias": d_conv1.sum((0, 2, 3))[:, None, None],
        "conv2_weight": weight_slope(d_conv2, seen.pool1, p["conv2_weight"]),
        "conv2_bias": d_conv2.sum((0, 2, 3))[:, None, None],
        "dense_weight": (seen.pool2.reshape(n, 128).T @ d_scores).reshape(32, 2, 2, 10),
        "dense_bias": d_scores.sum(0, keepdims=True),
    }


def weight_slope(slope: Floats, x: Floats, weight: Floats) -> Floats:
    """The gradient of `convolve(x, weight)` by its weight, where that of its result is `slope`."""
    return np.tensordot(slope, windows(x, weight), ([0, 2, 3], [0, 2, 3]))


def train(samples: Samples, epochs: int = 30, seed: int = SEED) -> Params:
    """Parameters after `epochs` of Adam on `samples`, 32 at a time.

    The rate falls from 0.003 along half a cosine.
    Source: D. Kingma and J. Ba, "Adam: a method for stochastic optimization", 2015.
    """
    rng = np.random.default_rng(seed)
    params = initial(rng)
    mean = {name: np.zeros_like(value) for name, value in params.items()}
    square = {name: np.zeros_like(value) for name, value in params.items()}
    steps = epochs * (len(samples.labels) // 32)
    order = np.concatenate([rng.permutation(len(samples.labels)) for _ in range(epochs + 1)])
    for step in range(steps):
        batch = samples[order[step * 32 : step * 32 + 32]]
        rate = 0.0015 * (1 + np.cos(np.pi * step / steps))
        for name, slope in gradients(params, batch).items():
            mean[name] += 0.1 * (slope - mean[name])
            square[name] += 0.001 * (slope**2 - square[name])
            root = np.sqrt(square[name] / (1 - 0.999 ** (step + 1))) + 1e-8
            params[name] -= (rate / (1 - 0.9 ** (step + 1)) * mean[name] / root).astype(np.float32)
    return params


def to_onnx(p: Params) -> onnx.ModelProto:
    """The network as the MNIST example of ORT's documentation writes it, node for node.

    Convolutions add their bias apart, and a Reshape of the dense weight can be folded.
    Input `image` [1, 1, 8, 8] in 0 to 1, output `scores` [1, 10].
    """
    g = Graph("digits")
    weight = {name: g.weight(value, name) for name, value in p.items()}
    dense = g.add("Reshape", weight["dense_weight"], g.ints(128, 10))
    x = g.input("image", (1, 1, 8, 8))
    for layer, kernel in (("conv1", 5), ("conv2", 3)):
        x = g.add(
            "Conv",
            x,
            weight[f"{layer}_weight"],
            kernel_shape=[kernel, kernel],
            strides=[1, 1],
            auto_pad="SAME_UPPER",
            group=1,
            dilations=[1, 1],
        )
        x = g.add("Relu", g.add("Add", x, weight[f"{layer}_bias"]))
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
    x = g.add("MatMul", g.add("Reshape", x, g.ints(1, 128)), dense)
    g.output(g.add("Add", x, weight["dense_bias"]), "scores")
    return g.model()


def png(image: Floats) -> bytes:
    """`image` [1, H, W] in 0 to 1 as an 8-bit greyscale PNG."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    height, width = image.shape[1:]
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = np.rint(image[0] * 255).astype(np.uint8)
    pixels = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_samples(seen: Samples, held_out: Samples, directory: Path) -> None:
    """Writes the held-out digits, twenty of them (two of each) also apart, and some to calibrate.

    The twenty are the first of each digit in order, whether or not the network reads them right.
    """
    directory.mkdir(exist_ok=True)
    first = np.array([np.flatnonzero(held_out.labels == digit)[:2] for digit in range(10)])
    twenty = held_out[first.T.reshape(-1)]
    twenty.save(directory / "samples.npz")
    held_out.save(directory / "held_out.npz")
    seen[:CALIBRATION].save(directory / "calibration.npz")
    for image, label in zip(twenty.images[:10], twenty.labels[:10], strict=True):
        (directory / f"{label}.png").write_bytes(png(image))


def main() -> None:
    """Trains and writes everything; prints how much of the held-out part is read right."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    seen, held_out = load()
    params = train(seen)
    directory.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(params), directory / "digits.onnx")
    write_samples(seen, held_out, directory / "digits")
    print(f"{accuracy(params, held_out):.2%} of {HELD_OUT} held-out digits are read right")


if __name__ == "__main__":
    main()
