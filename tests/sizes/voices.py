"""A network of the form of voice detectors: two sampling rates in one file, the state carried."""

import numpy as np
import onnx

from tests.onnx_graph import parsed

HIDDEN = 8


def _network(stride: int) -> str:
    """A branch; one frame is squeezed where several are averaged, which its shape decides."""
    return f"""rate{stride} () => (float[n,1] p, float[2,n,{HIDDEN}] s) {{
        image = Unsqueeze (input, one)
        frames = Conv <kernel_shape = [{stride}], strides = [{stride}]> (image, w{stride})
        x = Relu (frames) sizes = Shape (x) last = Gather (sizes, two) alone = Equal (last, one)
        row = If (alone) <
            then_branch = single () => (float[n,{HIDDEN}] q) {{ q = Squeeze (x, two) }},
            else_branch = several () => (float[n,{HIDDEN}] q) {{
                q = ReduceMean <axes = [2], keepdims = 0> (x)
            }}
        >
        step = Unsqueeze (row, zero) h, c = Split <axis = 0> (state)
        y, hn, cn = LSTM <hidden_size = {HIDDEN}> (step, W, R, B, , h, c)
        flat = Squeeze (y, outer) sum = MatMul (flat, v) p = Sigmoid (sum)
        s = Concat <axis = 0> (hn, cn)
    }}"""


def voice_detector() -> onnx.ModelProto:
    """`output`, `stateN` of `input`, `state` and the sampling rate `sr`, 16000 or another."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    return parsed(
        f"""(float[batch,length] input, float[2,batch,{HIDDEN}] state, int64 sr)
            => (float[batch,1] output, float[2,batch,{HIDDEN}] stateN) {{
        wide = Equal (sr, rate)
        output, stateN = If (wide) <then_branch = {_network(16)}, else_branch = {_network(8)}>
        }}""",
        opset=16,
        rate=np.array(16000),
        zero=[0],
        one=[1],
        two=[2],
        outer=[0, 1],
        w8=weights(HIDDEN, 1, 8),
        w16=weights(HIDDEN, 1, 16),
        W=weights(1, 4 * HIDDEN, HIDDEN),
        R=weights(1, 4 * HIDDEN, HIDDEN),
        B=weights(1, 8 * HIDDEN),
        v=weights(HIDDEN, 1),
    )
