"""Operations that sum products of float32 numbers; as `long_sums`."""

from collections.abc import Iterator
from math import isqrt

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.signature import OperationSpec
from tests.nnapi.host import recurrent_cells, test_recurrent_svdf
from tests.nnapi.host.draws import VALID, Cases, Draw, Example, laid_out, moved, windows
from tests.nnapi.host.oracle import F32, Stored, store


def convolution(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """All channels, groups of two, or single ones; of `count` products each."""
    depth = {spec.CONV_2D: 4, spec.GROUPED_CONV_2D: 2, spec.DEPTHWISE_CONV_2D: 1}[row]
    side = isqrt(draw.count // depth)
    first = 1 if depth == 1 else 4
    for nchw, image in draw.images(side + 1, side, 4):
        taps = draw.weights(first, side, side, 4 if depth == 1 else depth)
        bias = draw.weights(4)
        expected = np.empty((1, 2, 1, 4))
        for at, seen in windows(image.real, side):
            for o in range(4):
                start = o // depth * depth if depth < 4 else 0
                weights = taps.real[0, ..., o : o + 1] if depth == 1 else taps.real[o]
                expected[(0, *at, o)] = (seen[..., start : start + depth] * weights).sum()
        given = {"input": moved(image, nchw), "filter": taps, "bias": bias, **VALID}
        own = {spec.GROUPED_CONV_2D: {"num_groups": 2}}.get(row, {})
        own = {"depth_multiplier": 1} if depth == 1 else own
        yield given | own | {"layout": nchw}, [laid_out(expected + bias.real, nchw)]


def transposed(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """The middle of the output sees every pixel of the image."""
    side = 4 if draw.count < 10**5 else 16
    for nchw, image in draw.images(side, side, draw.count // side**2):
        taps, bias = draw.weights(2, side, side, image.real.shape[3]), draw.weights(2)
        expected = np.zeros((1, 2 * side - 1, 2 * side - 1, 2)) + bias.real
        for i, j in np.ndindex(side, side):
            expected[:, i : i + side, j : j + side] += image.real @ taps.real[:, i, j].T
        given = {"input": moved(image, nchw), "filter": taps, "bias": bias, **VALID}
        del given["padding"]
        pads = {f"padding_{side}": 0 for side in ("left", "right", "top", "bottom")}
        yield given | pads | {"layout": nchw}, [laid_out(expected, nchw)]


def fully_connected(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for rows in (1, 3):
        x, w = draw.data(rows, draw.count), draw.weights(4, draw.count)
        bias = draw.weights(4)
        given = {"input": x, "weights": w, "bias": bias, "activation": 0}
        yield given, [x.real @ w.real.T + bias.real]


def batch_matmul(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
        x, y = draw.data(2, 3, draw.count), draw.weights(2, draw.count, 4)
        given = {"input1": x, "input2": y, "adj_x": adj_x, "adj_y": adj_y}
        given["input1"] = store(x.array.swapaxes(1, 2), F32) if adj_x else x
        given["input2"] = store(y.array.swapaxes(1, 2), F32) if adj_y else y
        yield given, [x.real @ y.real]


def svdf(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """Many features, and a long memory."""
    for features, memory, scale in ((draw.count, 4, draw.small), (4, draw.count, 1.0)):
        given = {
            "input": draw.data(2, features),
            "weights_feature": draw.weights(4, features, scale=scale),
            "weights_time": draw.weights(4, memory),
            "bias": draw.weights(2),
            "state_in": draw.data(2, 4 * memory),
        }
        expected = test_recurrent_svdf.step({n: v.real for n, v in given.items()}, 2, 0)
        yield given | {"rank": 2, "activation": 0}, list(expected)


def rnn_cell(draw: Draw, prefix: str = "") -> dict[str, Stored]:
    found = {
        "weights": draw.weights(3, draw.count, scale=draw.small),
        "recurrent_weights": draw.weights(3, 3, scale=0.5),
        "bias": draw.weights(3),
        "hidden_state_in": draw.weights(2, 3),
    }
    return {prefix + name: value for name, value in found.items()}


def lstm_cell(draw: Draw, prefix: str = "", options: tuple[str, ...] = ()) -> dict[str, Stored]:
    shapes = recurrent_cells.shapes(draw.count, 3, 3, options)
    shapes |= {"output_state_in": (2, 3), "cell_state_in": (2, 3)}
    return {
        prefix + n: draw.weights(*shape, scale=draw.small if n.startswith("input_to") else 0.5)
        for n, shape in shapes.items()
    }


def recurrent(draw: Draw, row: OperationSpec) -> Iterator[Example]:
    """Two times of `count` features, or one; in both directions where the operation has them."""
    lstm, both = "LSTM" in row.name, row.name.startswith("BIDIRECTIONAL")
    one = row in (spec.RNN, spec.LSTM)
    x = draw.data(1 if one else 2, 2, draw.count)
    ways = ("fw_", "bw_") if both else ("",)
    operands = {
        n: v for way in ways for n, v in (lstm_cell if lstm else rnn_cell)(draw, way).items()
    }
    scalars: dict[str, object] = recurrent_cells.SCALARS if lstm else {"activation": 4}
    scalars = scalars | ({} if one else {"time_major": True if lstm or both else 1})
    scalars |= {"merge_outputs": False} if both else {}
    outputs, states = [], []
    for way in ways:
        w = {n: v.real for n, v in recurrent_cells.side(way, operands).items()}
        sequence = x.real[::-1] if way == "bw_" else x.real
        steps = recurrent_cells.steps if lstm else recurrent_cells.rnn_steps
        found = steps(w, sequence, scalars)
        outputs.append(found[0][::-1] if way == "bw_" else found[0])
        states = list(found[1:])
    everything = dict.fromkeys(param.name for param in row.input_params[0])
    given = everything | operands | scalars | {"input": store(x.array[0], F32) if one else x}
    if row is spec.LSTM:
        outputs = [np.zeros((2, 4 * 3)), *states, outputs[0][0]]
    if row is spec.RNN:
        outputs = [*states, outputs[0][0]]
    yield given, outputs


PRODUCTS: Cases = {
    spec.BATCH_MATMUL: batch_matmul,
    spec.BIDIRECTIONAL_SEQUENCE_LSTM: recurrent,
    spec.BIDIRECTIONAL_SEQUENCE_RNN: recurrent,
    spec.CONV_2D: convolution,
    spec.DEPTHWISE_CONV_2D: convolution,
    spec.FULLY_CONNECTED: fully_connected,
    spec.GROUPED_CONV_2D: convolution,
    spec.LSTM: recurrent,
    spec.RNN: recurrent,
    spec.SVDF: svdf,
    spec.TRANSPOSE_CONV_2D: transposed,
    spec.UNIDIRECTIONAL_SEQUENCE_LSTM: recurrent,
    spec.UNIDIRECTIONAL_SEQUENCE_RNN: recurrent,
}
