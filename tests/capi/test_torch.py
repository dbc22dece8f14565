"""Stock PyTorch as a client: its converter's models run on this library and agree with eager.

`make test-torch` runs these; PyTorch loads the library by the name libneuralnetworks.so.
"""

import ctypes
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from tests.programs import ran

torch = pytest.importorskip("torch", reason="stock PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_nnapi.py"


@pytest.fixture(scope="module", autouse=True)
def library() -> ctypes.CDLL:
    """Loaded, so that PyTorch's dlopen of its name finds it."""
    return ctypes.CDLL(libneuralnetworks_path())


def seeded(*shape: int, seed: int = 1) -> "torch.Tensor":
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def convert(
    module: nn.Module,
    *examples: "torch.Tensor",
    nhwc: bool = False,
    actual: "tuple[torch.Tensor, ...] | None" = None,
) -> object:
    """The module for NNAPI; in channels-last where `nhwc` and the input has channels.

    actual   what to trace with, when the examples have sizes of 0
    """
    from torch.backends._nnapi.prepare import convert_model_to_nnapi

    marked = [marking(e, nhwc) for e in examples]
    traced = torch.jit.trace(module, tuple(actual if actual is not None else examples))
    return convert_model_to_nnapi(traced, marked)


def marking(example: "torch.Tensor", nhwc: bool) -> "torch.Tensor":
    """The example as PyTorch's converter wants it told."""
    if example.dim() == 4 and nhwc:
        example = example.contiguous(memory_format=torch.channels_last)
    else:
        example = example.contiguous()
    example.nnapi_nhwc = nhwc and example.dim() == 4
    return example


def agrees(
    module: nn.Module, *inputs: "torch.Tensor", nhwc: bool = False, tol: float = 1e-5
) -> None:
    """NNAPI and eager agree within 1e-5 of the largest number: both compute in float32."""
    module.eval()
    with torch.no_grad():
        expected, got = module(*inputs), convert(module, *inputs, nhwc=nhwc)(*inputs)
    pairs = zip(expected, got, strict=True) if isinstance(expected, tuple) else [(expected, got)]
    for wanted, found in pairs:
        assert wanted.shape == found.shape
        limit = 1e-5 * max(1.0, float(wanted.abs().max()))
        assert float((wanted - found).abs().max()) <= limit


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: "torch.Tensor") -> object:
        return self.function(*inputs)


IMAGE, ROWS = (1, 4, 9, 8), (3, 5)
FLOAT: dict[str, tuple[nn.Module, tuple[tuple[int, ...], ...]]] = {
    "conv2d": (nn.Conv2d(4, 6, 3), (IMAGE,)),
    "conv2d padded, strided": (nn.Conv2d(4, 6, 3, stride=2, padding=1), (IMAGE,)),
    "conv2d depthwise": (nn.Conv2d(4, 4, 3, padding=1, groups=4), (IMAGE,)),
    "conv2d relu": (nn.Sequential(nn.Conv2d(4, 6, 1), nn.ReLU()), (IMAGE,)),
    "linear": (nn.Linear(5, 7), (ROWS,)),
    "relu": (nn.ReLU(), (ROWS,)),
    "sigmoid": (nn.Sigmoid(), (ROWS,)),
    "hardtanh": (nn.Hardtanh(), (ROWS,)),
    "relu6": (nn.Hardtanh(0.0, 6.0), (ROWS,)),
    "prelu": (nn.PReLU(), (ROWS,)),
    "softmax": (nn.Softmax(dim=-1), (ROWS,)),
    "log_softmax": (nn.LogSoftmax(dim=-1), (ROWS,)),
    "max_pool2d": (nn.MaxPool2d(2), (IMAGE,)),
    "avg_pool2d": (nn.AvgPool2d(3, stride=2), (IMAGE,)),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d(1), (IMAGE,)),
    "upsample_nearest2d": (nn.UpsamplingNearest2d(scale_factor=2), (IMAGE,)),
    "mean": (Call(lambda x: x.mean([2, 3], keepdim=True)), (IMAGE,)),
    "mean, rank lost": (Call(lambda x: x.mean([2, 3])), (IMAGE,)),
    "add": (Call(lambda x, y: x + y), (ROWS, ROWS)),
    "sub": (Call(lambda x, y: x - y), (ROWS, ROWS)),
    "mul": (Call(lambda x, y: x * y), (ROWS, ROWS)),
    "div": (Call(lambda x, y: x / y), (ROWS, ROWS)),
    "add, broadcast": (Call(lambda x, y: x + y), ((2, 3, 4), (1, 1, 4))),
    "reshape": (Call(lambda x: x.reshape(5, 3)), (ROWS,)),
    "flatten": (nn.Flatten(), ((2, 3, 4),)),
    "slice": (Call(lambda x: x[:, 1:4]), (ROWS,)),
    "cat": (Call(lambda x, y: torch.cat([x, y], 1)), (IMAGE, IMAGE)),
    "unsqueeze": (Call(lambda x: x.unsqueeze(1)), (ROWS,)),
    "detach": (Call(lambda x: x.detach() + x), (ROWS,)),
}
IMAGES = {name: module for name, (module, shapes) in FLOAT.items() if len(shapes[0]) == 4}
"""What has channels. PyTorch converts PReLU with an alpha for each only in channels-last."""


@pytest.mark.parametrize("name", FLOAT)
def test_float(name: str) -> None:
    module, shapes = FLOAT[name]
    torch.manual_seed(0)
    agrees(module, *(seeded(*shape, seed=n) for n, shape in enumerate(shapes)))


@pytest.mark.parametrize("name", [*IMAGES, "prelu each channel"])
def test_float_channels_last(name: str) -> None:
    module, shapes = FLOAT.get(name, (nn.PReLU(4), (IMAGE,)))
    agrees(module, *(seeded(*shape, seed=n) for n, shape in enumerate(shapes)), nhwc=True)


@pytest.mark.parametrize("nhwc", [False, True])
def test_several_outputs(nhwc: bool) -> None:
    conv = nn.Conv2d(4, 2, 3)
    module = Call(lambda x: (conv(x), F.relu(x), F.adaptive_avg_pool2d(x, 1)), conv=conv)
    agrees(module, seeded(*IMAGE), nhwc=nhwc)


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("sizes", [(0, 4, 9, 8), (1, 4, 0, 0), (0, 4, 0, 8)], ids=str)
def test_flexible_sizes(sizes: tuple[int, ...], nhwc: bool) -> None:
    """A size of 0 in the example is given by the first input."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 1)).eval()
    actual = seeded(*(size or 6 for size in sizes))
    with torch.no_grad():
        converted = convert(module, torch.zeros(sizes), nhwc=nhwc, actual=(actual,))
        torch.testing.assert_close(converted(actual), module(actual), rtol=1e-5, atol=1e-6)


SCALE, ZERO = 0.05, 120


def quantized(tensor: "torch.Tensor") -> "torch.Tensor":
    return torch.quantize_per_tensor(tensor, SCALE, ZERO, torch.quint8)


def quantized_agrees(module: nn.Module, *inputs: "torch.Tensor", nhwc: bool) -> None:
    """Within one step: rounding of a requantized sum may go either way."""
    module.eval()
    with torch.no_grad():
        expected, got = module(*inputs), convert(module, *inputs, nhwc=nhwc)(*inputs)
    assert expected.shape == got.shape
    assert got.dtype == torch.quint8
    assert (got.q_scale(), got.q_zero_point()) == (expected.q_scale(), expected.q_zero_point())
    steps = expected.int_repr().int() - got.int_repr().int()
    assert int(steps.abs().max()) <= 1


def static(module: nn.Module, example: "torch.Tensor") -> nn.Module:
    """The module with its weights and activations quantized after looking at `example`."""
    module = torch.ao.quantization.QuantWrapper(module).eval()
    module.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")
    prepared = torch.ao.quantization.prepare(module)
    prepared(example)
    return torch.ao.quantization.convert(prepared)


@pytest.fixture
def engine() -> object:
    """PyTorch's quantized engine whose numbers NNAPI's are compared with."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "qnnpack"
    yield
    torch.backends.quantized.engine = before


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(4, 6, 3),
        nn.Conv2d(4, 4, 3, padding=1, groups=4),
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 2, 1)),
    ],
    ids=["conv", "depthwise", "two convs"],
)
def test_quantized_networks(module: nn.Module) -> None:
    """Float in, float out, quantized within: a step of the output may be lost to rounding.

    PyTorch's converter quantizes in channels-last alone.
    """
    torch.manual_seed(0)
    example = seeded(*IMAGE)
    network = static(module, example)
    with torch.no_grad():
        expected, got = network(example), convert(network, example, nhwc=True)(example)
    step = max(m.scale for m in network.modules() if hasattr(m, "scale") and not callable(m.scale))
    assert float((expected - got).abs().max()) <= step * 1.001


@pytest.mark.usefixtures("engine")
def test_quantized_linear() -> None:
    torch.manual_seed(0)
    linear = torch.ao.nn.quantized.Linear(5, 7)
    weights = torch.quantize_per_tensor(seeded(7, 5), 0.02, 0, torch.qint8)
    linear.set_weight_bias(weights, seeded(7))
    linear.scale, linear.zero_point = 0.1, 128
    quantized_agrees(linear, quantized(seeded(3, 5)), nhwc=False)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("name", ["add", "add_relu", "mul"])
def test_quantized_arithmetic(name: str, nhwc: bool) -> None:
    a, b = (quantized(seeded(*IMAGE, seed=n)) for n in (1, 2))
    operation = torch.ao.nn.quantized.QFunctional()
    operation.scale, operation.zero_point = 0.1, 100
    quantized_agrees(Call(getattr(operation, name), q=operation), a, b, nhwc=nhwc)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("module", [nn.ReLU(), nn.MaxPool2d(2)], ids=["relu", "max_pool"])
def test_quantized_tensors_in_and_out(module: nn.Module, nhwc: bool) -> None:
    quantized_agrees(module, quantized(seeded(*IMAGE)), nhwc=nhwc)


def test_the_example() -> None:
    """Within 1e-5 of the largest score: float32 in another order of summation, 60 layers deep."""
    assert 0 < runpy.run_path(str(EXAMPLE))["main"]() <= 1e-5


def test_the_example_in_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a step of the scores: rounding of a requantized sum may go either way."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    before = torch.backends.quantized.engine
    try:
        main = runpy.run_path(str(EXAMPLE.with_name("torch_nnapi_8_bits.py")))["main"]
        assert main() <= 1e-2
    finally:
        torch.backends.quantized.engine = before


def test_eight_threads_run_one_module() -> None:
    program = (
        "import ctypes, threading, torch\n"
        "from torch.backends._nnapi.prepare import convert_model_to_nnapi\n"
        f"ctypes.CDLL({libneuralnetworks_path()!r})\n"
        "x = torch.ones(1, 4); x.nnapi_nhwc = False\n"
        "traced = torch.jit.trace(torch.nn.ReLU().eval(), x)\n"
        "nn = convert_model_to_nnapi(traced, [x]); nn(x)\n"
        "wrong = []\n"
        "def work(n):\n"
        "    for k in range(50):\n"
        "        y = torch.full((1, 4), float(n * k))\n"
        "        if not torch.equal(nn(y), y): wrong.append(n)\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print(len(wrong))"
    )
    done = ran(sys.executable, "-W", "ignore", "-c", program, status=None, timeout=120)
    assert (done.stdout, done.stderr) == ("0\n", "")
