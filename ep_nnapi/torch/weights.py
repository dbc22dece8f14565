"""The weights that a session of a compiled graph has as constants, to notice when they change."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TypeAlias
from weakref import ref

import torch

Addresses: TypeAlias = tuple[int, ...]
_address = torch.Tensor.data_ptr
_version = attrgetter("_version")


def addresses(tensors: Sequence[torch.Tensor]) -> Addresses:
    """Returns where the data of tensors are, which tells the weights of two modules apart."""
    return tuple(map(_address, tensors))


class Weights:
    """Weights as they are now; keeps their memory, so that no others can be at their addresses.

    Not noticed are changes in place that PyTorch does not count: of tensors made in inference mode,
    of what `Tensor.data` returns, and through NumPy.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Notes these weights."""
        self._memory = [tensor.detach() for tensor in tensors]
        self._owners = [ref(tensor) for tensor in tensors]
        self._counting = [not tensor.is_inference() for tensor in tensors]
        self._all_count = all(self._counting)
        self._versions = self._versions_of(tensors)

    def changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """True if the weights, at the same addresses, were changed in place."""
        return self._versions != self._versions_of(tensors)

    def unused(self) -> bool:
        """True if one of the tensors is no more or has its data elsewhere."""
        owners = [owner() for owner in self._owners]
        return any(
            owner is None or _address(owner) != _address(memory)
            for owner, memory in zip(owners, self._memory, strict=True)
        )

    def _versions_of(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        if self._all_count:
            return list(map(_version, tensors))
        pairs = zip(tensors, self._counting, strict=True)
        return [_version(tensor) for tensor, counts in pairs if counts]
