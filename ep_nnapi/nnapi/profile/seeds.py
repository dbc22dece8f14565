"""First samples of each operation: every list of operands, every typing, every rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Omitted, Operand
from ep_nnapi.nnapi.profile.form import MAX_RANK
from ep_nnapi.nnapi.profile.quantization import bias_scale, quantized
from ep_nnapi.nnapi.profile.sample import Sample, constant, typed, with_zeros
from ep_nnapi.nnapi.profile.sizes import INDEXES, SCALARS, SIZES, WEIGHTS, size_of
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params, Typing
from ep_nnapi.nnapi.spec import OPERATIONS

NOT_SAMPLED = ("IF", "WHILE")
"""Operations whose support depends on the models that they hold."""

_INPUT_GATE = ("input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias")
"""Parts of names of operands that an LSTM with coupled input and forget gates omits."""


def seeds() -> Iterator[Sample]:
    """The first samples of all operations, in the order of their codes."""
    for spec in OPERATIONS:
        if spec.name not in NOT_SAMPLED:
            yield from seeds_of(spec)


def seeds_of(spec: OperationSpec) -> Iterator[Sample]:
    """The first samples of one operation; some may be illegal."""
    for inputs, outputs in product(map(_lists, spec.input_params), map(_lists, spec.output_params)):
        for ins, outs, typing in product(inputs, outputs, spec.typings):
            for omitted in _omissions(ins):
                for ranks in _ranks(spec, ins, typing, omitted):
                    yield from _sample(spec, typing, (ins, outs), omitted, ranks)


def _lists(form: Params) -> list[Params]:
    """The operand lists of a form, by their possible ends."""
    return [form[: i + 1] for i, param in enumerate(form) if param.last]


def _omissions(params: Params) -> list[frozenset[str]]:
    """Sets of optional parameters to omit together."""
    optional = [p.name for p in params if p.optional]
    if "cell_to_forget_weights" in optional:
        cells = (_omitted_of_cell(optional, *flags) for flags in product((True, False), repeat=6))
        return list(dict.fromkeys(cells))
    if len(optional) > 3:
        return [frozenset(), frozenset(optional)]
    chosen = product((False, True), repeat=len(optional))
    return [frozenset(n for n, on in zip(optional, c, strict=True) if on) for c in chosen]


def _omitted_of_cell(
    optional: list[str],
    coupled: bool,
    peephole: bool,
    projection: bool,
    bias: bool,
    norm: bool,
    auxiliary: bool,
) -> frozenset[str]:
    """The operands that an LSTM with these features omits."""
    kept = {
        "cell_to_input_weights": peephole and not coupled,
        "cell_to_": peephole,
        "projection_weights": projection,
        "projection_bias": projection and bias,
        "input_layer_norm_weights": norm and not coupled,
        "layer_norm_weights": norm,
        "aux_input_to_input_weights": auxiliary and not coupled,
        "aux_": auxiliary,
        **dict.fromkeys(_INPUT_GATE, not coupled),
    }
    return frozenset(n for n in optional if not next((k for p, k in kept.items() if p in n), True))


def _ranks(
    spec: OperationSpec, params: Params, typing: Typing, omitted: frozenset[str]
) -> Iterator[Mapping[str, int]]:
    """The ranks of the tensors that may have several, by name."""
    names = [p.name for p in params if p.name not in omitted and _free(spec, p, typing)]
    limits = [spec.ranks.get(n, (1, MAX_RANK)) for n in names]
    for ranks in product(*(range(low, high + 1) for low, high in limits)):
        most = max(ranks, default=0)
        if most <= 4 or all(r in (1, 2, most) for r in ranks):
            yield dict(zip(names, ranks, strict=True))


def _free(spec: OperationSpec, param: Param, typing: Typing) -> bool:
    code = typing.code(param.type)
    named = (spec.name, param.name) in SIZES or param.name in INDEXES
    return code is not None and code.tensor and not named


def _sample(
    spec: OperationSpec,
    typing: Typing,
    forms: tuple[Params, Params],
    omitted: frozenset[str],
    ranks: Mapping[str, int],
) -> Iterator[Sample]:
    inputs: dict[str, tuple[Operand, ...]] = {}
    for param in forms[0]:
        code = typing.code(param.type)
        if code is None:
            return
        operand = _operand(spec, param, code, ranks)
        if param.name in omitted:
            operand = Operand(code, value=Omitted.NO_VALUE)
        inputs[param.name] = (operand, operand) if param.many else (operand,)
    outputs = len(forms[1]) + (1 if forms[1][-1].many else 0)
    sample = Sample(spec, typing, *forms, inputs, outputs=outputs)
    sample = _with_bias_scale(sample)
    values: dict[str, Array] = {}
    for name in inputs.keys() & INDEXES.keys():
        if name not in omitted and (spec.name, name) not in SIZES:
            values[name] = INDEXES[name](_shape(sample), sample)
    yield sample.with_values(**values)


def _operand(
    spec: OperationSpec, param: Param, code: OperandCode, ranks: Mapping[str, int]
) -> Operand:
    if not code.tensor:
        value = SCALARS.get((spec.name, param.name), SCALARS.get(param.name))
        default = {OperandCode.BOOL: False, OperandCode.INT32: 1}.get(code, 1.0)
        return constant(Operand(code), default if value is None else value)
    dims = SIZES.get((spec.name, param.name))
    if dims is None:
        size = 1 if spec.name == "SQUEEZE" else size_of(max(ranks.values(), default=1))
        dims = (size,) * ranks.get(param.name, 1)
    operand = quantized(spec, param.name, typed(code, dims))
    return with_zeros(operand) if param.name.endswith(WEIGHTS) else operand


def _shape(sample: Sample) -> tuple[int, ...]:
    """The shape of the first tensor, which operands of indexes refer to."""
    return next(o.dimensions for _, o in sample.tensors())


def _with_bias_scale(sample: Sample) -> Sample:
    weights = "filter" if "filter" in sample.inputs else "weights"
    if "bias" not in sample.inputs or weights not in sample.inputs:
        return sample
    bias, data = sample.input("bias"), next(iter(sample.inputs.values()))[0]
    if bias.type is not OperandCode.TENSOR_INT32:
        return sample
    return sample.changed(bias=replace(bias, scale=bias_scale(data, sample.input(weights))))


def indexes(*values: int) -> Array:
    """A constant tensor of indexes."""
    return np.array(values, np.int32)
