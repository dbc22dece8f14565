"""ONNX's backend tests on the provider, beside the CPU provider: of nodes, and of networks."""

import faulthandler
import os
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR
from onnx.backend.test.runner import Runner

from tests.onnx_backend import trial
from tests.onnx_backend.trial import Verdict, provider_session, quiet, require_sound
from tests.onnx_backend.workers import Died, spread

LEVELS = (8, 4, 3, 1)


@pytest.mark.long
def test_what_passes_on_the_cpu_passes_with_the_provider() -> None:
    tally = trial.run(trial.load(), LEVELS)
    report = "\n".join(tally.lines())
    assert not tally.failures, report
    assert len(tally.operators) >= trial.DELEGATED_AT_LEAST, report
    assert tally.verdicts[max(LEVELS), Verdict.PASSED] > 2000, report


def test_a_crash_costs_one_item() -> None:
    def work(item: int) -> int:
        if item == 2:
            faulthandler.disable()  # pytest's would print the stack
            os.kill(os.getpid(), signal.SIGSEGV)
        return item * item

    assert dict(spread(work, range(5))) == {0: 0, 1: 1, 2: Died("SIGSEGV"), 3: 9, 4: 16}


RTOL, ATOL = 1e-3, 1e-7  # those of the networks' data.json
DEVICES = {
    "densenet121": "nnapi-reference",
    "inception_v1": "nnapi-reference",
    "inception_v2": "nnapi-reference",
    "resnet50": "nnapi-reference",
    "shufflenet": "nnapi-reference",
    # its 1000 logits are equal numbers of 1e10, which softmax keeps equal only if no rounding
    # depends on the position of a column; a matrix product of numpy's does not promise that
    "squeezenet": "host-cpu",
}


@pytest.mark.long
@pytest.mark.parametrize("network", DEVICES)
def test_a_network_gives_the_expected_outputs(network: str) -> None:
    path = Path(DATA_DIR) / "light" / f"light_{network}.onnx"
    model = onnx.load(path)
    fixed = {i.name for i in model.graph.initializer}
    (given,) = (i for i in model.graph.input if i.name not in fixed)
    feeds = {given.name: Runner.generate_dummy_data(given)}
    stored = TensorProto.FromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
    options = {"device": DEVICES[network]}
    session, provider = provider_session(model.SerializeToString(), quiet(), options)
    (output,) = session.run(None, feeds)
    assert len(provider.clusters) == 1
    assert provider.report.rejections == ()
    require_sound(provider)
    np.testing.assert_allclose(output, numpy_helper.to_array(stored), RTOL, ATOL)
