"""Programs that are packed in containers: bytes come back, and nothing else does."""

import pytest

from ep_nnapi.epcontext.layout import MOST_INFLATED
from ep_nnapi.epcontext.packing import deflated, inflated


@pytest.mark.parametrize("data", [b"x", b"abc" * 1000, bytes(range(256)) * 3, bytes(1 << 20)])
def test_bytes_come_back(data: bytes) -> None:
    assert inflated(deflated(data)) == data
    assert len(data) <= MOST_INFLATED * len(deflated(data))


@pytest.mark.parametrize("change", ["short", "long", "size", "many", "none", "other"])
def test_other_bytes_are_refused(change: str) -> None:
    whole = deflated(b"abc" * 1000)
    forged = {
        "short": whole[:-1],
        "long": whole + b"x",
        "size": (2999).to_bytes(4, "little") + whole[4:],
        "many": (2**32 - 1).to_bytes(4, "little") + whole[4:],
        "none": b"",
        "other": whole[:4] + b"\xff" * len(whole),
    }[change]
    with pytest.raises(ValueError, match="a packed alternative is corrupt"):
        inflated(forged)
