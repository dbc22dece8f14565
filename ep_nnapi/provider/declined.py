"""The error of a cluster that cannot be on its device."""

from __future__ import annotations

from collections.abc import Iterable

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import Reason

TOO_LARGE = {
    f"ANEURALNETWORKS_{code.name}"
    for code in (
        ResultCode.OUT_OF_MEMORY,
        ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
        ResultCode.RESOURCE_EXHAUSTED_PERSISTENT,
    )
}
"""Result codes with which a device may decline a model for its size."""


class Declined(Exception):
    """Nodes cannot be in a cluster after all; an empty `names` means all nodes of the cluster.

    too_large  True if the device lacked memory to compile the cluster
    """

    def __init__(
        self, names: Iterable[str], reason: Reason, detail: str, too_large: bool = False
    ) -> None:
        super().__init__(detail)
        self.too_large = too_large
        self.names = frozenset(names)
        self.reason = reason
        self.detail = detail
