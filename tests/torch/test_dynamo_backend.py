"""`torch.compile(model, backend="ep_nnapi")`."""

import gc
import logging

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from ep_nnapi import ModelError  # noqa: E402
from ep_nnapi.torch import dynamo_backend  # noqa: E402
from ep_nnapi.torch.dynamo_backend import CompiledGraph  # noqa: E402
from ep_nnapi.torch.inference_graph import inference_graph  # noqa: E402
from tests.torch.networks import IMAGE, agrees, seeded, small_cnn  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _fresh():
    """Nothing compiled by another test; that of this one is not kept."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(module: object, **options: object) -> object:
    return torch.compile(module, backend="ep_nnapi", options=options or None)


def test_found_by_its_name():
    assert "ep_nnapi" in torch._dynamo.list_backends()


@torch.no_grad()
def test_agrees_with_eager(caplog: pytest.LogCaptureFixture):
    torch.manual_seed(0)
    module = small_cnn()
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        agrees(compiled(module)(seeded(*IMAGE)), module(seeded(*IMAGE)))
    assert "NNAPI takes" in caplog.text


@torch.no_grad()
def test_a_second_batch_size_makes_one_dynamic_session(caplog: pytest.LogCaptureFixture):
    module = small_cnn()
    run = compiled(module)
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        for batch in (2, 3, 5, 7, 3):
            x = seeded(batch, *IMAGE[1:])
            agrees(run(x), module(x))
    assert caplog.text.count("NNAPI takes") == 2


@torch.no_grad()
def test_graph_breaks_and_python_values():
    def function(x, k):
        y = torch.sin(x) * k
        torch._dynamo.graph_break()
        return {"y": y + x.shape[0], "k": k, "none": None}

    run = compiled(function)
    for x, k in ((seeded(2, 3), 2), (seeded(2, 3), 5), (seeded(4, 3), 0.5)):
        agrees(run(x, k), function(x, k))


@torch.no_grad()
def test_numbers_become_constants_up_to_a_limit(caplog, monkeypatch):
    """The first is specialized by Dynamo, two more by the backend; all else runs in PyTorch."""
    monkeypatch.setattr(dynamo_backend, "MOST_NUMBERS", 2)
    run = compiled(lambda x, k: x * k)
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        for k in (1.5, 2.5, 3.5, 4.5, 2.5):
            agrees(run(seeded(2, 3), k), seeded(2, 3) * k)
    assert caplog.text.count("NNAPI takes") == 3
    assert caplog.text.count("give them as tensors") == 1


@torch.no_grad()
def test_everything_dynamic():
    module = small_cnn()
    run = torch.compile(module, backend="ep_nnapi", dynamic=True)
    for shape in ((2, 3, 8, 8), (3, 3, 6, 10)):
        agrees(run(seeded(*shape)), module(seeded(*shape)))


CHANGES = {
    "in place": lambda m: m[5].weight.mul_(2),
    "loaded": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "another parameter": lambda m: setattr(m[5], "weight", nn.Parameter(torch.ones(2, 4))),
    "other data": lambda m: setattr(m[5].weight, "data", torch.ones(2, 4)),
    "buffer": lambda m: m[1].running_mean.add_(1),
}


@torch.no_grad()
@pytest.mark.parametrize("name", CHANGES)
def test_changed_weights_are_seen(name: str):
    torch.manual_seed(0)
    module, x = small_cnn(), seeded(*IMAGE)
    run = compiled(module)
    before = run(x)
    CHANGES[name](module)
    agrees(run(x), module(x))
    assert not torch.equal(before, run(x))


@torch.no_grad()
def test_modules_of_one_class_take_turns(caplog: pytest.LogCaptureFixture):
    """Dynamo gives them one graph; each has a session, which goes with the module."""
    torch.manual_seed(0)
    graphs = []

    def keep(graph, examples):
        graphs.append(CompiledGraph(inference_graph(graph), examples, {}))
        return graphs[-1]

    modules = [small_cnn() for _ in range(3)]
    runs = [torch.compile(module, backend=keep) for module in modules]
    x = seeded(*IMAGE)
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        for _ in range(2):
            for run, module in zip(runs, modules, strict=True):
                agrees(run(x), module(x))
    assert caplog.text.count("NNAPI takes") == 3
    (graph,) = graphs
    assert len(graph._compiled) == 3
    del runs[0], modules[0], run, module
    gc.collect()
    modules[0][5].weight.mul_(2)
    agrees(runs[0](x), modules[0](x))
    assert len(graph._compiled) == 2


def test_gradients_run_in_pytorch_with_one_warning(caplog: pytest.LogCaptureFixture):
    """Without gradients, and with grad mode off, the same call runs on NNAPI."""
    dynamo_backend._warn.cache_clear()
    module, x = small_cnn(), seeded(*IMAGE)
    run = compiled(module)
    for function in (run, compiled(lambda x: module(x) * 2)):
        function(x).sum().backward()
    (record,) = caplog.records
    assert "no gradients; call the compiled module under" in record.getMessage()
    assert all(parameter.grad is not None for parameter in module.parameters())
    with torch.inference_mode():
        agrees(run(x), module(x))
    agrees(compiled(module.requires_grad_(False))(x), module(x))


@pytest.mark.parametrize("in_graph", [False, True], ids=["arguments", "in the graph"])
def test_gradients_can_be_an_error(in_graph: bool):
    """`install_free_tensors` makes parameters a part of the graph, no arguments."""
    module, x = small_cnn(), seeded(*IMAGE)
    with torch._dynamo.config.patch(install_free_tensors=in_graph):
        run = compiled(module, gradients="error")
        with pytest.raises(Exception, match=r"for inference .* torch\.no_grad"):
            run(x)
        with torch.no_grad():
            agrees(run(x), module(x))


@torch.no_grad()
@pytest.mark.parametrize("in_graph", [False, True], ids=["arguments", "in the graph"])
def test_compiled_ahead(in_graph: bool):
    """Other sizes are refused by PyTorch's guards; saving, with the way out."""
    module = small_cnn()

    @torch.compile(backend="ep_nnapi", fullgraph=True)
    def run(x):
        return module(x)

    with torch._dynamo.config.patch(install_free_tensors=in_graph):
        ready = run.aot_compile(((seeded(*IMAGE),), {}))
    agrees(ready(seeded(*IMAGE, seed=2)), module(seeded(*IMAGE, seed=2)))
    with pytest.raises(RuntimeError, match="size mismatch"):
        ready(seeded(3, *IMAGE[1:]))
    with pytest.raises(ModelError, match=r"to_nnapi\(module, example_inputs\)\.save\(path\)"):
        ready.save_compiled_function("never_written")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"options": {"feature_level": 9}}, "feature_level is 9"),
        ({"options": {"nothing": 1}}, "nothing"),
        ({"options": {"gradients": True}}, "it must be 'eager' or 'error'"),
        ({"mode": "reduce-overhead"}, "give options"),
    ],
)
def test_bad_options(arguments: dict[str, object], said: str):
    run = torch.compile(torch.sin, backend="ep_nnapi", **arguments)
    with pytest.raises(Exception, match=said):
        run(torch.ones(2))


@torch.no_grad()
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: torch.cumprod(x, 1), "cannot convert prims.prod.default"),
        (lambda x: nn.functional.dropout(x, 1.0, training=True), "training mode"),
        (torch.fft.fft, "complex tensor"),
        (
            nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
            "call torch.backends.mha.set_fastpath_enabled(False) before",
        ),
    ],
)
def test_what_no_model_can_be_runs_in_pytorch(function: object, said: str, caplog):
    agrees(compiled(function)(seeded(1, 2, 4)), function(seeded(1, 2, 4)))
    assert "runs in PyTorch" in caplog.text
    assert said in caplog.text


@torch.no_grad()
def test_inputs_that_are_changed_in_place():
    """The caller's tensor has to change as in eager mode, so this stays in PyTorch."""

    def function(x):
        x.add_(1)
        return x * 2

    x, y = seeded(2, 3), seeded(2, 3)
    agrees(compiled(function)(x), function(y))
    assert torch.equal(x, y)


@torch.no_grad()
def test_the_provider_s_options_are_used():
    graphs = []

    def keep(graph, examples):
        graphs.append(CompiledGraph(inference_graph(graph), examples, {"exclude": "Relu"}))
        return graphs[-1]

    module = nn.Sequential(nn.ReLU(), nn.Sigmoid())
    agrees(torch.compile(module, backend=keep)(torch.ones(2)), module(torch.ones(2)))
    (graph,) = graphs
    assert [r.op_type for r in graph.report.rejections] == ["Relu"]
