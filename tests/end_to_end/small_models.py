"""Small models of float inputs and outputs: how much of one is taken, and what it computes."""

from enum import StrEnum

import numpy as np
import onnx

import ep_nnapi
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import listed, quiet

RNG = np.random.default_rng(0)


class Taken(StrEnum):
    """Share of a model that is assigned to the provider."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def taken(model: onnx.ModelProto | bytes, **options: object) -> Taken:
    report = ep_nnapi.check(model, **options)
    if report.taken == report.nodes:
        return Taken.ALL
    return Taken.SOME if report.taken else Taken.NONE


def close(
    made: onnx.ModelProto, feeds: dict[str, np.ndarray], atol: float = 1e-5, **options
) -> None:
    """A stock session with the provider computes what one on the CPU does."""
    model = made if isinstance(made, bytes) else made.SerializeToString()
    got = listed(model, quiet(), **{k: str(v) for k, v in options.items()}).run(None, feeds)
    want = session_of(model, quiet()).run(None, feeds)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def drawn(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)
