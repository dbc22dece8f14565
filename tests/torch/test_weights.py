"""Weights of compiled graphs."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from ep_nnapi.torch.dynamo_backend import Weights, addresses  # noqa: E402

pytestmark = pytest.mark.torch


def tensors() -> list[torch.Tensor]:
    with torch.inference_mode():
        made_for_inference = torch.ones(3)
    return [torch.nn.Parameter(torch.ones(2)), torch.ones(2), made_for_inference]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_same_weights_have_not_changed(count: int):
    given = tensors()[:count]
    noted = Weights(given)
    assert addresses(given) == addresses(list(given))
    assert not noted.changed(given)
    assert not noted.unused()


@torch.no_grad()
def test_changes_in_place_are_seen():
    given = tensors()
    noted = Weights(given)
    given[1].add_(1)
    assert noted.changed(given)


def test_changes_that_pytorch_does_not_count():
    """The limit that the class states."""
    given = tensors()
    noted = Weights(given)
    given[0].data.add_(1)
    given[1].numpy()[:] = 3
    with torch.inference_mode():
        given[2].add_(1)
    assert not noted.changed(given)


def test_other_weights_are_elsewhere():
    given = tensors()
    before, noted = addresses(given), Weights(given)
    assert addresses([*given[:2], torch.ones(3)]) != before
    given[0].data = torch.ones(2)
    assert addresses(given) != before
    assert noted.unused()


def test_weights_of_a_module_that_is_no_more():
    given = tensors()
    noted = Weights(given)
    del given[1]
    gc.collect()
    assert noted.unused()
