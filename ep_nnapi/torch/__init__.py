"""PyTorch on NNAPI: `to_nnapi`, `load`, and the backend `ep_nnapi` of torch.compile.

Needs the extra `torch`; nothing else in this package imports PyTorch.
"""

from __future__ import annotations

from ep_nnapi.installed import explained
from ep_nnapi.nnapi.errors import NnapiError

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise NnapiError(
        "PyTorch is not installed: pip install 'ep-nnapi[torch]'; where CUDA is not wanted, first "
        "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    ) from None

with explained():
    from ep_nnapi.torch.module import NnapiModule, load, to_nnapi

__all__ = ["NnapiModule", "load", "to_nnapi"]
