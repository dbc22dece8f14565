"""What runs an alternative: its nodes on the CPU provider, with their constants in the weights."""

from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.provider.alternative_runs import GaveWay, open_onnx
from tests.native.sessions import prepared
from tests.onnx_graph import parsed
from tests.preparation.test_alternatives import PARTS, contents

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def test_nodes_run_on_the_cpu_provider(tmp_path: Path):
    path = prepared(parsed(PARTS), tmp_path, alternatives="nnapi:3,cpu", embed=True)
    (content,) = contents(path)
    run = open_onnx(content.alternatives[-1], content.weights)(["x"], ["y"])
    results: dict[int, np.ndarray] = {}

    def allocate(index: int, shape: tuple[int, ...]) -> np.ndarray:
        return results.setdefault(index, np.empty(shape, np.float32))

    run([X], allocate, lambda: None)
    b = np.maximum(np.exp(X), 0)
    np.testing.assert_allclose(results[0], b + np.exp(b), rtol=1e-5)
    with pytest.raises(GaveWay, match="ONNX Runtime: "):
        run([X.astype(np.float64)], allocate, lambda: None)
