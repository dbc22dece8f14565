"""Causes of differences of whole quantized networks from the CPU provider; there are no others.

Cut into layers, each is within one quantum; whole networks are not, since the next layers read what
the ones before rounded otherwise. Two causes make a layer differ by itself:

TIE   The real result lies halfway between two stored numbers, as near as float32 tells. ONNX takes
      the even one, NNAPI the greater one; and the CPU provider's sums of float32 products are off
      by what NNAPI's sums of integers are not.
TWICE NNAPI's operation has a scale of its own (LOGISTIC, SOFTMAX, TANH) or its input's (means,
      RESIZE_BILINEAR), so that the result is rounded to that and then to the model's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

import ep_nnapi
from models import zoo
from tests.end_to_end import quantized as q
from tests.end_to_end.test_quantized import QUANTUM, SCHEMES, ZOO, built

pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)

TIE, TWICE = "TIE", "TWICE"
HALFWAY = 1e-3
"""Of a quantum: what float32 makes of sums of products that are some hundred quanta large."""

PRODUCTS = {("Conv", TIE), ("Gemm", TIE), ("MatMul", TIE), ("Add", TIE), ("Mul", TIE)}
SQUEEZED = {("GlobalAveragePool", TWICE), ("GlobalAveragePool", TIE)}
CLASSIFIED = {("Softmax", TIE), ("Softmax", TWICE)}
CAUSES: dict[str, set[tuple[str, str]]] = {
    "mobilenet_v1": PRODUCTS | SQUEEZED,
    "mobilenet_v2": PRODUCTS | SQUEEZED,
    "mobilenet_v3_large": PRODUCTS | SQUEEZED | {("HardSigmoid", TIE), ("HardSwish", TIE)},
    "efficientnet_lite0": PRODUCTS | SQUEEZED,
    "resnet18": PRODUCTS | SQUEEZED,
    "resnet50": PRODUCTS | SQUEEZED,
    "squeezenet1_1": PRODUCTS | SQUEEZED,
    "espcn": PRODUCTS | {("Tanh", TWICE)},
    "segmentation": PRODUCTS | {("Resize", TIE), ("Resize", TWICE), ("Sigmoid", TWICE)},
    "vgg_small": PRODUCTS,
    "mlp": PRODUCTS,
    "kws_dscnn": PRODUCTS | SQUEEZED | CLASSIFIED,
}
"""For each network which operators differ by themselves, and the cause."""


@dataclass(frozen=True)
class Layer:
    """One quantization: its operator, the real numbers and what became of them on either side."""

    op_type: str
    node: str
    scale: float
    real: np.ndarray
    got: np.ndarray
    want: np.ndarray

    def differs(self) -> np.ndarray:
        return self.got != self.want

    def is_tie(self) -> bool:
        """True if all differing values lie halfway between two stored numbers."""
        places = self.real[self.differs()].astype(np.float64) / self.scale
        return bool(np.all(np.abs(places - np.floor(places) - 0.5) <= HALFWAY))


def layers(model: onnx.ModelProto) -> Iterator[Layer]:
    """The layers by themselves, each fed with what the CPU provider computes before it."""
    feeds = zoo.sample_inputs(model)
    feeds |= q.quantized_tensors(model, feeds)
    cut = q.layers(model)
    given = {i.name: feeds[i.name] for i in cut.graph.input}
    got, want = q.on_nnapi(cut, given), q.on_cpu(cut, given)
    made = {n.output[0]: n for n in cut.graph.node}
    constants = {t.name: t for t in cut.graph.initializer}
    quantizers = [made[o.name] for o in cut.graph.output]
    reals = on_the_way(cut, [n.input[0] for n in quantizers], given)
    for node, real, ours, theirs in zip(quantizers, reals, got, want, strict=True):
        source = made.get(node.input[0], node)
        while source.op_type in ("Relu", "Clip") and source.input[0] in made:
            source = made[source.input[0]]
        scale = onnx.numpy_helper.to_array(constants[node.input[1]]).item()
        yield Layer(source.op_type, source.name or source.output[0], scale, real, ours, theirs)


def on_the_way(
    cut: onnx.ModelProto, names: list[str], given: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """The CPU provider's real numbers before they are quantized; inputs as they are."""
    probed = onnx.ModelProto()
    probed.CopyFrom(cut)
    computed = [n for n in names if n not in given]
    del probed.graph.output[:]
    probed.graph.output.extend(
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None)
        for n in dict.fromkeys(computed)
    )
    found = dict(zip(dict.fromkeys(computed), q.on_cpu(probed, given), strict=True))
    return [given[n] if n in given else found[n] for n in names]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ZOO)
def test_every_layer_is_within_one_quantum_and_its_difference_has_a_cause(name: str, scheme: str):
    model = built(name, scheme)
    notes = ep_nnapi.check(q.layers(model).SerializeToString()).notes
    twice = {n.node for n in notes if n.detail.startswith("requantized")}
    apart = [layer for layer in layers(model) if layer.differs().any()]
    assert q.apart([a.got for a in apart], [a.want for a in apart]) <= QUANTUM
    assert not [a.op_type for a in apart if a.node not in twice and not a.is_tie()]
    assert {(a.op_type, TWICE if a.node in twice else TIE) for a in apart} <= CAUSES[name]
