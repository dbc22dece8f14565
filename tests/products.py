"""Integer products by numpy, in place of the CPU provider's, which saturate on some processors.

A model is computed node by node. Products of integers follow ONNX's formulas with sums that are
either exact or saturate in 16 bits, as x86-64 processors without VNNI do (the instruction
VPMADDUBSW adds two products and saturates). All other nodes the CPU provider computes, one by one.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ep_nnapi.sessions.cpu import exact_options, quiet_options, session_of

Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The product of two stacks of matrices of stored integers."""

Inputs = Sequence[np.ndarray | None]


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64)


def saturating(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As VPMADDUBSW: for uint8 x int8, pairs of products are added up in 16 bits."""
    if {a.dtype, b.dtype} != {np.dtype(np.uint8), np.dtype(np.int8)}:
        return exact(a, b)
    odd = a.shape[-1] % 2
    a = np.concatenate([a, np.zeros((*a.shape[:-1], odd), a.dtype)], axis=-1).astype(np.int64)
    b = np.concatenate([b, np.zeros((*b.shape[:-2], odd, b.shape[-1]), b.dtype)], axis=-2)
    pairs = [a[..., :, i::2, None] * b[..., None, i::2, :].astype(np.int64) for i in (0, 1)]
    return np.clip(pairs[0] + pairs[1], -(1 << 15), (1 << 15) - 1).sum(axis=-2)


def computed(
    model: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    sums: Sums = exact,
    spared: Collection[str] = (),
) -> list[np.ndarray]:
    """The outputs of the model, node by node; products with weights `spared` are exact.

    Those inside other operators (DynamicQuantizeLSTM) are the processor's if none should be exact.
    """
    is_exact = sums is exact or bool(spared)
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer} | dict(feeds)
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        given = [known[name] if name else None for name in node.input]
        if node.op_type in FORMULAS:
            chosen = exact if spared and not set(node.input).isdisjoint(spared) else sums
            made = [FORMULAS[node.op_type](chosen, node, given)]
        else:
            made = _on_cpu(model, node, known, constants, is_exact)
        known.update(zip((name for name in node.output if name), made, strict=True))
    return [known[o.name] for o in model.graph.output]


def multiplies_integers(model: onnx.ModelProto) -> bool:
    """True if an operator of the model multiplies stored integers."""
    return any(node.op_type in FORMULAS for node in model.graph.node)


def _on_cpu(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    known: Mapping[str, np.ndarray],
    constants: Mapping[str, onnx.TensorProto],
    is_exact: bool,
) -> list[np.ndarray]:
    """One node's outputs by the CPU provider."""
    names = dict.fromkeys(name for name in node.input if name)
    fed = {n: np.asarray(known[n]) for n in names if n not in constants}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in fed.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    held = [constants[n] for n in names if n in constants]
    graph = helper.make_graph([node], "node", inputs, outputs, held)
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    options = exact_options() if is_exact else quiet_options()
    return list(session_of(alone.SerializeToString(), options).run(None, fed))


def _attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return found.get(name, default)


def _less(sums: Sums, a: np.ndarray, b: np.ndarray, za: object, zb: object) -> np.ndarray:
    """(a - za) @ (b - zb) from the sums of stored numbers, as kernels compute it."""
    za = np.asarray(0 if za is None else za, np.int64)
    zb = np.asarray(0 if zb is None else zb, np.int64)
    rows = a.astype(np.int64).sum(axis=-1, keepdims=True)
    columns = b.astype(np.int64).sum(axis=-2, keepdims=True)
    za = za[..., None] if za.ndim == 1 else za
    return sums(a, b) - rows * zb - za * columns + za * zb * a.shape[-1]


def _convolved(
    sums: Sums, node: onnx.NodeProto, x: np.ndarray, w: np.ndarray, zx: object, zw: object
) -> np.ndarray:
    """The sums of a convolution [N, M, ...]: windows by filters, group by group."""
    zx = np.asarray(0 if zx is None else zx, x.dtype)
    axes = range(2, x.ndim)
    dilations = _attribute(node, "dilations", [1] * len(axes))
    strides = _attribute(node, "strides", [1] * len(axes))
    size = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], dilations, strict=True)]
    pads = ((0, 0), (0, 0), *_pads(node, x.shape[2:], size, strides))
    padded = np.pad(x, pads, constant_values=zx.item())
    seen = np.lib.stride_tricks.sliding_window_view(padded, size, tuple(axes))
    seen = seen[:, :, *(slice(None, None, step) for step in (*strides, *dilations))]
    groups = _attribute(node, "group", 1)
    parts = []
    zeros = np.broadcast_to(np.asarray(0 if zw is None else zw, np.int64), w.shape[:1])
    of_group = zip(
        *(np.split(a, groups, axis=i) for a, i in ((seen, 1), (w, 0), (zeros, 0))), strict=True
    )
    for part, filters, zero in of_group:
        rows = np.moveaxis(part, 1, x.ndim - 1)  # the channels before their windows
        n, *sizes = rows.shape[: x.ndim - 1]
        rows = rows.reshape(n, math.prod(sizes), -1)
        found = _less(sums, rows, filters.reshape(len(filters), -1).T, zx, zero)
        parts.append(found.transpose(0, 2, 1).reshape(n, -1, *sizes))
    return np.concatenate(parts, axis=1)


def _pads(
    node: onnx.NodeProto, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    """Padding before and after each spatial axis."""
    same = _attribute(node, "auto_pad", b"NOTSET")
    if same not in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = _attribute(node, "pads", [0] * 2 * len(sizes))
        return list(zip(pads[: len(sizes)], pads[len(sizes) :], strict=True))
    found = []
    for size, window, stride in zip(sizes, windows, strides, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + window - size)
        less, more = total // 2, total - total // 2
        found.append((less, more) if same == b"SAME_UPPER" else (more, less))
    return found


def _stored(real: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Real numbers quantized; of ties the even number, as ONNX says."""
    limits = np.iinfo(zero.dtype)
    rounded = np.rint(real / np.float64(scale)) + zero.astype(np.int64)
    return np.clip(rounded, limits.min, limits.max).astype(zero.dtype)


def _matmul_integer(sums: Sums, node: onnx.NodeProto, given: Inputs) -> np.ndarray:
    a, b, za, zb = (*given, None, None)[:4]
    return _less(sums, a, b, za, zb).astype(np.int32)


def _conv_integer(sums: Sums, node: onnx.NodeProto, given: Inputs) -> np.ndarray:
    x, w, zx, zw = (*given, None, None)[:4]
    return _convolved(sums, node, x, w, zx, zw).astype(np.int32)


def _qlinear_matmul(sums: Sums, node: onnx.NodeProto, given: Inputs) -> np.ndarray:
    a, sa, za, b, sb, zb, sy, zy = given
    scale = np.asarray(sa, np.float64) * sb
    return _stored(_less(sums, a, b, za, zb) * scale, sy, zy)


def _qlinear_conv(sums: Sums, node: onnx.NodeProto, given: Inputs) -> np.ndarray:
    x, sx, zx, w, sw, zw, sy, zy, bias = (*given, None)[:9]
    found = _convolved(sums, node, x, w, zx, zw)
    added = 0 if bias is None else bias.astype(np.int64)[:, None, None]
    scale = (np.float64(sx) * np.asarray(sw, np.float64)).reshape(-1, 1, 1)
    return _stored((found + added) * scale, sy, zy)


def _qgemm(sums: Sums, node: onnx.NodeProto, given: Inputs) -> np.ndarray:
    a, sa, za, b, sb, zb, bias, sy, zy = (*given, None, None, None)[:9]
    b = b.T if _attribute(node, "transB", 0) else b
    found = _less(sums, a, b, za, zb) + (0 if bias is None else bias.astype(np.int64))
    real = found * (_attribute(node, "alpha", 1.0) * np.float64(sa) * np.asarray(sb, np.float64))
    return real.astype(np.float32) if sy is None else _stored(real, sy, zy)


FORMULAS: Mapping[str, Callable[[Sums, onnx.NodeProto, Inputs], np.ndarray]] = {
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
    "QGemm": _qgemm,
}
"""The operators whose products the CPU provider computes in integers."""
