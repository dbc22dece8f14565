"""Compiled models of open sizes: each run has its own, on every instance; sessions compile once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ep_nnapi.litert.device import open_runtime
from ep_nnapi.litert.library import Library
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.nnapi.sizes import Trace
from models import zoo
from tests.end_to_end import test_zoo as networks
from tests.end_to_end.sessions import nnapi_session
from tests.litert.needs import LITERT
from tests.litert.test_flat_sizes import heads
from tests.litert.test_to_tflite import reference

pytestmark = LITERT
SHAPES = ((3, 4, 6), (1, 9, 6), (5, 1, 6), (3, 4, 6), (2, 20, 6))


def compiled(instances: int = 1):
    runtime = open_runtime()
    return runtime.compile(
        heads(Trace()), runtime.devices()[0], CompileOptions(instances=instances)
    )


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def wanted(array: np.ndarray) -> np.ndarray:
    b, s, _ = array.shape
    (found,) = reference(heads(Trace()).bind({"b": b, "s": s}), [array])
    return found


@pytest.mark.parametrize("instances", [1, 3])
def test_threads_run_it_with_sizes_of_their_own(instances: int) -> None:
    model, arrays = compiled(instances), [drawn(shape) for shape in SHAPES]
    expected = [wanted(array) for array in arrays]

    def right(n: int) -> bool:
        (found,) = model.run([arrays[n % len(SHAPES)]])
        return np.allclose(found, expected[n % len(SHAPES)], 0, 1e-6)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(100)))


def test_given_arrays_are_filled_and_others_refused() -> None:
    """A run after one that fails is right: 21 rows are more than the table has."""
    model, array = compiled(), drawn(SHAPES[0])
    out = np.empty((3, 2, 4, 3), np.float32)
    (result,) = model.run([array], [out])
    assert result is out
    np.testing.assert_allclose(out, wanted(array), 0, 1e-6)
    with pytest.raises(RuntimeFailure):
        model.run([drawn((1, 21, 6))])
    np.testing.assert_allclose(model.run([array])[0], wanted(array), 0, 1e-6)


def test_a_session_compiles_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_, count = Library.compile, []
    monkeypatch.setattr(
        Library, "compile", lambda *given: count.append(len(given[1])) or compile_(*given)
    )
    name = "transformer_encoder"
    made = networks.symbolic(name, tuple(sorted(zoo.MODELS[name].dynamic)))
    session = nnapi_session(made, runtime="litert")
    for feeds in networks.drawn(name, made, 4):
        session.run(None, feeds)
    assert sum(size > 1 << 20 for size in count) == 1  # beside what devices are tried with
