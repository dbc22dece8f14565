"""Strides and aliases of what torch.compile returns: those of PyTorch's backend `aot_eager`."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.torch import odd_modules  # noqa: E402
from tests.torch.networks import agrees, seeded  # noqa: E402

pytestmark = pytest.mark.torch
LAST = torch.channels_last
CASES = {
    **{name: (f, lambda: seeded(3, 4)) for name, f in odd_modules.MATRIX.items()},
    **{f"{name}, transposed": (odd_modules.MATRIX[name], lambda: seeded(4, 3).t())
       for name in ("t", "contiguous", "reshape", "mixed strides", "as_strided of a contiguous")},
    **{name: (f, lambda: seeded(1, 2, 4, 4)) for name, f in odd_modules.IMAGE.items()},
    **{f"{name}, channels_last": (f, lambda: seeded(1, 2, 4, 4).to(memory_format=LAST))
       for name, f in odd_modules.IMAGE.items()},
    **{name: (f, lambda: seeded(3, 2, 4)) for name, f in odd_modules.SEQUENCE.items()},
}  # fmt: skip
PYTORCH = ("identity", "dropout", "permuted", "gradients disabled")
"""Where aot_eager differs from PyTorch itself, in which graphs with gradients run: it copies what
is returned as it is, has another stride for one element, and gradients where there are none."""
DYNAMIC = ("t of a new tensor", "a tensor and its views", "elementwise of a transposed", "reshape")


def tensors_of(value: object) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def copied(value: object) -> object:
    """The value with copies of its tensors, which nothing changes."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), value)


def facts(tensors: list[torch.Tensor]) -> list[tuple[object, ...]]:
    """Type, strides, gradients, and the first tensor that is, or has the memory of, each."""
    memory = [t.untyped_storage().data_ptr() if t.numel() else n for n, t in enumerate(tensors)]
    ids = [id(t) for t in tensors]
    return [
        (t.dtype, t.shape, t.stride(), t.requires_grad, ids.index(i), memory.index(m))
        for t, i, m in zip(tensors, ids, memory, strict=True)
    ]


def observed(
    backend: str | None, function: Callable[..., object], x: torch.Tensor, **options: object
):
    """What is seen of a call: results, facts, gradients, and values after changes in place."""
    torch._dynamo.reset()
    weights = [odd_modules.WEIGHT, odd_modules.CONV.weight]
    for weight in weights:
        weight.grad = None
    run = torch.compile(function, backend=backend, **options) if backend else function
    seen = []
    with torch.random.fork_rng():
        result = run(x)
    tensors = [x, *weights, *tensors_of(result)]
    seen += [copied(result), facts(tensors), copied(tensors)]
    losses = [t.sum() for t in tensors[3:] if t.requires_grad]
    if torch.is_grad_enabled() and losses:
        sum(losses).backward()
        seen.append([None if t.grad is None else t.grad.clone() for t in (x, *weights)])
    with torch.no_grad():
        for tensor in tensors[3:]:
            if 0 not in tensor.stride() and tensor.data_ptr() != weights[0].data_ptr():
                tensor.detach().add_(1)  # views of one operation refuse it themselves
                seen.append(copied(tensors))
        seen.append(run(seeded(*x.shape, seed=2).as_strided(x.shape, x.stride())))
    return seen


@pytest.mark.parametrize("mode", ["no_grad", "grad"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_aot_eager(name: str, mode: str):
    function, given = CASES[name]
    if (name, mode) == ("out", "grad"):
        with pytest.raises(Exception, match="don't support automatic differentiation"):
            observed("ep_nnapi", function, given().requires_grad_())
        return
    compare(function, given, mode, None if name in PYTORCH and mode == "grad" else "aot_eager")


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes_agree_with_aot_eager(name: str):
    compare(odd_modules.MATRIX[name], lambda: seeded(3, 4), "no_grad", "aot_eager", dynamic=True)


def compare(function, given, mode: str, reference: str | None, **options: object) -> None:
    """Values within 1e-5: float32 sums in another order. All else is equal."""
    with torch.set_grad_enabled(mode != "no_grad"):
        found, expected = (
            observed(backend, function, given().requires_grad_(mode == "grad"), **options)
            for backend in ("ep_nnapi", reference)
        )
    assert found[1] == expected[1]
    agrees(found, expected)
