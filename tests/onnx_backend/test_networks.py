"""Networks with constant weights, with the outputs that ONNX's backend test expects of them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR
from onnx.backend.test.runner import Runner

from tests.onnx_backend.delegation import provider_session, require_sound
from tests.onnx_backend.trial import quiet

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
    with provider_session(model.SerializeToString(), quiet(), options) as (session, found):
        (output,) = session.run(None, feeds)
        provider = found()
        assert len(provider.clusters) == 1
        assert provider.report.rejections == ()
        require_sound(provider)
    np.testing.assert_allclose(output, numpy_helper.to_array(stored), RTOL, ATOL)
