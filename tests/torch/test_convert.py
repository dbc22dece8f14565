"""`to_nnapi`: the module's own results, and what is refused."""

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from ep_nnapi import ModelError, OptionError  # noqa: E402
from ep_nnapi.torch import load, to_nnapi  # noqa: E402
from tests.torch.networks import IMAGE, Call, Nested, agrees, seeded, small_cnn  # noqa: E402
from tests.torch.vision import torchvision  # noqa: E402

pytestmark = pytest.mark.torch
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch_one_line.py"
BATCH = torch.export.Dim.AUTO if hasattr(torch, "export") else None


def eager(module: nn.Module, *args: object, **kwargs: object) -> object:
    with torch.no_grad():
        return module(*args, **kwargs)


def test_a_network_of_one_tensor():
    """Within 1e-5: float32 sums in another order."""
    torch.manual_seed(0)
    module, image = small_cnn(), seeded(*IMAGE)
    converted = to_nnapi(module, image)
    agrees(converted(image), eager(module, image))
    agrees(converted(input=image), eager(module, image))
    assert converted.report.taken == converted.report.nodes
    assert isinstance(converted, nn.Module)
    assert not list(converted.parameters())


def nested_inputs(rows: int, seed: int = 1) -> dict[str, object]:
    pair = (seeded(2, seed=seed + 1), seeded(1))
    return {"x": seeded(rows, 4, seed=seed), "scale": 2, "given": {"a": pair, "unused": pair[1]}}


def test_nested_arguments_and_results():
    module = Nested().eval()
    converted = to_nnapi(module, nested_inputs(3))
    for inputs in (nested_inputs(3), nested_inputs(3, seed=5)):
        agrees(converted(**inputs), eager(module, **inputs))
    x, scale, given = nested_inputs(3).values()
    swapped = dict(reversed(list(given.items())))
    agrees(converted(x, scale, given=swapped), eager(module, x, scale, given=given))


def test_dynamic_rows():
    module = Nested().eval()
    shapes = {"x": {0: BATCH}, "scale": None, "given": {"a": (None, None), "unused": None}}
    converted = to_nnapi(module, nested_inputs(3), dynamic_shapes=shapes)
    for rows in (3, 2, 7):
        agrees(converted(**nested_inputs(rows)), eager(module, **nested_inputs(rows)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": 3}, "converted for the value 2 and is called with 3"),
        ({"x": 3}, "3 is given where the example had a tensor"),
        ({"given": {"a": None}}, "not converted for these arguments"),
        ({"other": 1}, "unexpected keyword argument 'other'"),
    ],
)
def test_another_call_than_the_example(change: dict[str, object], said: str):
    converted = to_nnapi(Nested().eval(), nested_inputs(3))
    with pytest.raises(ModelError, match=said):
        converted(**(nested_inputs(3) | change))


def test_inputs_with_gradients_or_other_strides():
    module = Call(lambda x: x * 2)
    converted = to_nnapi(module, seeded(2, 3))
    for x in (seeded(2, 3).requires_grad_(), seeded(3, 2).T, seeded(2, 6)[:, ::2]):
        agrees(converted(x), eager(module, x))


def strided(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x * 2, (3, 2), (1, 3)) + 1


def in_a_branch(x: torch.Tensor) -> torch.Tensor:
    read = [lambda y, n=n: (y + n).as_strided((3, 2), (2, 1)) for n in (1, 2)]
    return torch.cond(x.sum() > 0, *read, (x,))


@pytest.mark.parametrize("function", [strided, in_a_branch])
def test_inputs_with_other_strides_are_refused_where_memory_is_read(function, tmp_path: Path):
    module, x, transposed = Call(function), torch.ones(3, 2), torch.ones(2, 3).t()
    with pytest.raises(ModelError, match="contiguous"):
        to_nnapi(module, transposed)
    converted = to_nnapi(module, x)
    converted.save(tmp_path / "net.onnx", format="onnx")
    for run in (converted, load(tmp_path / "net.onnx")):
        agrees(run(x), eager(module, x))
        with pytest.raises(ModelError, match=r"strides of \(1, 3\), .* pass its contiguous\(\)"):
            run(transposed)


class Product(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, 1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x):
        self.runs.add_(1)
        return x + self.runs


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def eager_quantized() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8)), {nn.Linear})


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (small_cnn().train(), r"in training mode \(batch_norm in 1 at .*\); call its eval"),
        (nn.Dropout(), r"in training mode \(dropout"),
        (nn.Sequential(nn.ReLU(), Product()), r"cannot convert prims.prod.default in 1 at .*\.py:"),
        (Counter(), "changes runs when it runs"),
        (Branch(), r"cannot trace the module at .*\.py:\d+: .*data-dependent.*torch\.where"),
        (Call(lambda x: x.bfloat16()), "bfloat16"),
        (Call(lambda x: x.mT.as_strided((2, 2), (1, 1)) * 2), r"as_strided at .* contiguous"),
        (Call(lambda x: x.as_strided((2, 2), (1, 1), 3) * 2), r"as_strided at .* storage_offset"),
        (Call(lambda x: x[:, :1].contiguous().as_strided((9,), (8,)) * 2), "own elements"),
        (Call(lambda x: {x}), "results of the module have a value of type set"),
        (Call(torch.fft.fft), "results of the module have a complex tensor; .*view_as_real"),
        (torch.sin, r"builtin_function_or_method; it must be a torch\.nn\.Module"),
        (torch.jit.trace(nn.ReLU(), torch.ones(2)), "does not take TorchScript"),
        (eager_quantized(), r"0 is quantized in eager mode \(Linear\), .*PT2E.*_nnapi"),
    ],
    ids=[
        "batch norm",
        "dropout",
        "operator",
        "buffer",
        "branch",
        "bfloat16",
        "as_strided of a transposed",
        "as_strided with an offset",
        "as_strided beyond its tensor",
        "set",
        "complex",
        "function",
        "TorchScript",
        "eager quantization",
    ],
)
def test_what_cannot_be_converted(module: nn.Module, said: str):
    with pytest.raises(ModelError, match=said):
        to_nnapi(module, torch.ones(*IMAGE))


def test_examples_and_options_that_do_not_fit():
    module = nn.ReLU()
    with pytest.raises(ModelError, match="missing a required argument"):
        to_nnapi(module, ())
    with pytest.raises(ModelError, match="of type float"):
        to_nnapi(module, 1.0)
    with pytest.raises(ModelError, match="example_inputs have a complex tensor"):
        to_nnapi(module, torch.ones(2, dtype=torch.complex64))
    with pytest.raises(OptionError, match="feature_level is 9"):
        to_nnapi(module, torch.ones(2), feature_level=9)


def test_refusals_have_module_and_line_once():
    """Level 1 has no EXP."""
    module = nn.Sequential(nn.ReLU(), Call(torch.exp))
    report = to_nnapi(module, torch.ones(2, 2), feature_level=1).report
    (refused,) = report.rejections
    assert refused.op_type == "Exp"
    assert refused.source.module == "1"
    assert refused.source.file.endswith("tests/torch/networks.py")
    assert refused.source.code == "return self.function(*args)"
    assert "networks.py" not in refused.detail


def test_the_example(monkeypatch: pytest.MonkeyPatch):
    """Within 1e-5 of the largest score: float32 in another order of summation, 60 layers deep."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    assert 0 < runpy.run_path(str(EXAMPLE))["main"]() <= 1e-5


@pytest.mark.long
def test_the_example_of_three_networks(monkeypatch, capsys):
    """Within 1e-5 of the largest number: float32 in another order of summation."""
    torchvision()
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    assert 0 < runpy.run_path(str(EXAMPLE.with_name("torch_networks.py")))["main"]() <= 1e-5
    assert "  on the CPU: NonMaxSuppression\n" in capsys.readouterr().out
