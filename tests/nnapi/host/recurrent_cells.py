"""Recurrent cells to try: their weights, and the NDK's equations for them in float64."""

import numpy as np

SEED = 20260816
GATES = ("input", "forget", "cell", "output")
BIASES = {gate: "cell_bias" if gate == "cell" else f"{gate}_gate_bias" for gate in GATES}
SCALARS = {"activation": 4, "cell_clip": 0.0, "projection_clip": 0.0}
FUNCTIONS = {
    0: lambda x: x,
    1: lambda x: np.maximum(x, 0),
    2: lambda x: np.clip(x, -1, 1),
    3: lambda x: np.clip(x, 0, 6),
    4: np.tanh,
    6: lambda x: 1 / (1 + np.exp(-x)),
}
OPTIONS = {
    "plain": (),
    "coupled": ("coupled",),
    "peephole": ("peephole",),
    "norm": ("norm",),
    "projection": ("projection",),
    "bias": ("projection", "projection_bias"),
    "coupled-all": ("coupled", "peephole", "norm", "projection", "projection_bias"),
    "all": ("peephole", "norm", "projection", "projection_bias"),
}


def drawn(*shape, salt=0):
    return np.random.default_rng([SEED, salt, *shape]).uniform(-1, 1, shape)


def shapes(inputs, units, outputs, options, aux=0):
    """The shapes of a cell's weights by name."""
    gates = GATES[1:] if "coupled" in options else GATES
    found = {f"input_to_{gate}_weights": (units, inputs) for gate in gates}
    found |= {f"recurrent_to_{gate}_weights": (units, outputs) for gate in gates}
    found |= {BIASES[gate]: (units,) for gate in gates}
    if "peephole" in options:
        found |= {f"cell_to_{gate}_weights": (units,) for gate in gates if gate != "cell"}
    if "norm" in options:
        found |= {f"{gate}_layer_norm_weights": (units,) for gate in gates}
    if aux:
        found |= {f"aux_input_to_{gate}_weights": (units, aux) for gate in gates}
    if "projection" in options:
        found |= {"projection_weights": (outputs, units)}
    if "projection_bias" in options:
        found |= {"projection_bias": (outputs,)}
    return found


def weights(*sizes, options=(), aux=0, prefix=""):
    """A cell's weights by name, for `sizes` of inputs, units and outputs."""
    found = shapes(*sizes, options, aux)
    return {
        prefix + name: drawn(*shape, salt=hash_of(prefix + name)) for name, shape in found.items()
    }


def hash_of(name):
    """A seed for a name, the same in every process."""
    return sum(ord(letter) * 31**i for i, letter in enumerate(name)) % 2**31


def side(prefix, operands):
    """Operands of one direction, without its prefix."""
    return {k.removeprefix(prefix): v for k, v in operands.items() if k.startswith(prefix)}


def steps(w, sequence, scalars=SCALARS, auxiliary=None):
    """Outputs of all times and the last states, as the NDK's equations for ANEURALNETWORKS_LSTM.

    w   weights and states in, by name; sequences are [times, batches, inputs]
    """
    h, c = w["output_state_in"], w["cell_state_in"]
    sigmoid, g = FUNCTIONS[6], FUNCTIONS[scalars["activation"]]
    outputs = np.empty((len(sequence), *h.shape))
    for t, x in enumerate(sequence):
        a = None if auxiliary is None else auxiliary[t]
        f = sigmoid(gate(w, "forget", x, h, a, c))
        i = 1 - f
        if "input_to_input_weights" in w:
            i = sigmoid(gate(w, "input", x, h, a, c))
        c = clip(f * c + i * g(gate(w, "cell", x, h, a)), scalars["cell_clip"])
        h = sigmoid(gate(w, "output", x, h, a, c)) * g(c)
        if "projection_weights" in w:
            h = h @ w["projection_weights"].T + w.get("projection_bias", 0)
            h = clip(h, scalars["projection_clip"])
        outputs[t] = h
    return outputs, h, c


def gate(w, name, x, h, a, c=None):
    """Input of a gate's activation."""
    total = x @ w[f"input_to_{name}_weights"].T + h @ w[f"recurrent_to_{name}_weights"].T
    if a is not None:
        total = total + a @ w[f"aux_input_to_{name}_weights"].T
    if f"cell_to_{name}_weights" in w:
        total = total + w[f"cell_to_{name}_weights"] * c
    if f"{name}_layer_norm_weights" in w:
        deviation = np.sqrt(total.var(axis=-1, keepdims=True) + 1e-8)
        total = (total - total.mean(axis=-1, keepdims=True)) / deviation
        total = total * w[f"{name}_layer_norm_weights"]
    return total + w[BIASES[name]]


def clip(x, threshold):
    return np.clip(x, -threshold, threshold) if threshold else x


def rnn_weights(inputs, units, aux=0, prefix=""):
    """Those of an RNN's cell by name."""
    found = {"weights": (units, inputs), "recurrent_weights": (units, units), "bias": (units,)}
    if aux:
        found |= {"aux_weights": (units, aux)}
    return {
        prefix + name: drawn(*shape, salt=hash_of(prefix + name)) / 2
        for name, shape in found.items()
    }


def rnn_steps(w, sequence, scalars, auxiliary=None):
    """Outputs of all times and the last state, as the NDK's equation for ANEURALNETWORKS_RNN."""
    h = w["hidden_state_in"]
    outputs = np.empty((len(sequence), *h.shape))
    for t, x in enumerate(sequence):
        total = x @ w["weights"].T + h @ w["recurrent_weights"].T + w["bias"]
        if auxiliary is not None:
            total = total + auxiliary[t] @ w["aux_weights"].T
        h = outputs[t] = FUNCTIONS[scalars["activation"]](total)
    return outputs, h
