"""Sample operations become legal models of the sizes that NNAPI infers."""

from itertools import product

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.profile.sample import Sample, bias_scale, model_of, quantized, use_of
from ep_nnapi.nnapi.profile.seeds import (
    INDEXES,
    NOT_SAMPLED,
    SCALARS,
    SIZES,
    seeds,
    seeds_of,
    size_of,
)
from ep_nnapi.nnapi.profile.variations import variations
from ep_nnapi.nnapi.spec import BY_NAME, OPERATIONS
from ep_nnapi.nnapi.validate import check_type, required_level, validate
from tests.cases import each
from tests.nnapi.profile.examples import RULES
from tests.nnapi.profile.make import I32, Q8, add, tensor, use


def first(name: str, **present: int) -> Sample:
    """The first sample whose named operands are of those ranks."""
    return next(
        s
        for s in seeds_of(BY_NAME[name])
        if all(len(s.input(n).dimensions) == rank for n, rank in present.items())
    )


def test_outputs_are_inferred():
    use, level = use_of(first("MEAN", input=4).with_values(axes=np.array([1, 2], np.int32)))
    assert use.outputs[0].dimensions == (4, 1, 1, 4)
    assert level == 2


@pytest.mark.parametrize(("axis", "legal"), [(3, True), (4, False), (-4, True), (-5, False)])
def test_an_illegal_sample_is_none(axis: int, legal: bool):
    changed = first("MEAN", input=4).with_values(axes=np.array([axis], np.int32))
    assert (use_of(changed) is not None) is legal


def test_one_model_of_several_operations():
    uses = [use_of(first(name))[0] for name in ("ADD", "CONV_2D", "EXP")]
    model = model_of(uses)
    validate(model, 8)
    assert [o.spec.name for o in model.operations] == ["ADD", "CONV_2D", "EXP"]
    assert required_level(model) == max(use_of(first(n))[1] for n in ("ADD", "CONV_2D", "EXP"))
    assert all(model.operands[i].value is None for i in model.inputs)


def test_other_sizes_and_unknown_outputs():
    sample = first("EXP", input=2)
    assert use_of(sample.with_sizes(input=(3, 5)))[0].outputs[0].dimensions == (3, 5)
    use, _ = use_of(sample.with_sizes(input=(0, 5)))
    assert use.outputs[0].dimensions == (0, 5)


def test_weights_are_constants():
    inputs = {n: o[0].value for n, o in first("CONV_2D").inputs.items()}
    assert inputs["input"] is None
    assert isinstance(inputs["filter"], Data)
    assert isinstance(inputs["bias"], Data)


# Sizes and values of sample operands name operands that there are


def names(operation: str) -> set[str]:
    return {param.name for form in BY_NAME[operation].input_params for param in form}


EVERY = set().union(*(names(o.name) for o in OPERATIONS))


@pytest.mark.parametrize("operation", sorted({operation for operation, _ in SIZES}))
def test_tables_name_operations_and_operands(operation: str):
    """The operands of one kind of LSTM are listed for all kinds."""
    listed = {name for owner, name in SIZES if owner == operation}
    assert listed & names(operation)
    assert not {n for n in listed - names(operation) if "LSTM" not in operation} - {
        "aux_weights",
        "fw_aux_weights",
        "bw_aux_weights",
    }


def test_scalars_and_indexes_are_operands():
    for key in SCALARS:
        operation, name = key if isinstance(key, tuple) else (None, key)
        assert name in (EVERY if operation is None else names(operation)), key
    assert INDEXES.keys() <= EVERY


@pytest.mark.parametrize(("rank", "size"), [(1, 4), (4, 4), (5, 2)])
def test_tensors_of_many_dimensions_are_small(rank: int, size: int):
    assert size_of(rank) == size


# Quantization parameters of sample operands

TENSORS = [code for code in OperandCode if code.tensor]


@pytest.mark.parametrize("code", TENSORS)
def test_every_tensor_is_legal(code: OperandCode):
    check_type(quantized(BY_NAME["CONV_2D"], "filter", Operand(code, (4, 2, 2, 4))), "filter")


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("LOGISTIC", OperandCode.TENSOR_QUANT8_ASYMM, (1 / 256, 0)),
        ("LOGISTIC", OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (1 / 256, -128)),
        ("TANH", OperandCode.TENSOR_QUANT8_ASYMM, (1 / 128, 128)),
        ("RELU", OperandCode.TENSOR_QUANT8_ASYMM, (0.5, 128)),
        ("RELU", OperandCode.TENSOR_FLOAT32, (0.0, 0)),
    ],
)
def test_outputs(name: str, code: OperandCode, found: tuple[float, int]):
    output = quantized(BY_NAME[name], "output", Operand(code, (2,)))
    assert (output.scale, output.zero_point) == found


def test_scale_of_a_bias():
    spec = BY_NAME["CONV_2D"]
    data, per_channel = (
        quantized(spec, "filter", Operand(code, (4, 2, 2, 4)))
        for code in (OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL)
    )
    assert bias_scale(data, data) == 0.25
    assert bias_scale(data, per_channel) == 0


# First samples: of every operation there is a legal one, of every data type and rank


@each("name", [o.name for o in OPERATIONS if o.name not in NOT_SAMPLED])
def test_every_operation_has_a_legal_sample(name: str):
    assert any(use_of(sample) for sample in seeds_of(BY_NAME[name]))


def test_operations_are_in_the_order_of_their_codes():
    assert next(seeds()).spec.name == OPERATIONS[0].name
    assert NOT_SAMPLED == ("IF", "WHILE")


def test_types_ranks_and_lengths_of_lists():
    found = {form_of(use[0]) for s in seeds_of(BY_NAME["SOFTMAX"]) if (use := use_of(s))}
    assert {f.ranks for f in found} == {f"{n} > {n}" for n in range(1, 5)}
    assert {f.types.split()[0] for f in found} == {
        "TENSOR_FLOAT32",
        "TENSOR_FLOAT16",
        "TENSOR_QUANT8_ASYMM",
        "TENSOR_QUANT8_ASYMM_SIGNED",
    }
    lists = {f.types.split(" > ")[0].partition(" ")[2] for f in found}
    assert lists == {"FLOAT32", "FLOAT32 INT32", "FLOAT16", "FLOAT16 INT32"}


def test_an_lstm_omits_what_belongs_together():
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    found = {form_of(use[0]).types for s in seeds_of(BY_NAME[name]) if (use := use_of(s))}
    assert not all("-" in types for types in found)  # all features
    assert len({types.split(" > ")[0] for types in found}) == 2 * 24  # of float32 and of float16


@pytest.mark.parametrize("size", [1, 5, 18])
def test_samples_of_other_sizes_have_the_same_forms(size: int):
    for name in ("ADD", "CONV_2D", "LSTM", "FULLY_CONNECTED", "SOFTMAX"):
        usual, others = (
            {form_of(use[0]) for s in seeds_of(BY_NAME[name], n) if (use := use_of(s))}
            for n in (4, size)
        )
        assert {(f.types, f.ranks) for f in usual} == {(f.types, f.ranks) for f in others}
    sample = next(seeds_of(BY_NAME["CONV_2D"], size))
    assert sample.input("filter").dimensions == (size, min(size, 2), min(size, 2), size)


def test_what_nnapi_demands_of_samples():
    """Scales of corners and of cells, and as many outputs as there are of merged ones."""
    rois = next(
        s.input("rois") for s in seeds_of(BY_NAME["ROI_ALIGN"]) if s.input("rois").type.quantized
    )
    assert (rois.scale, rois.zero_point) == (1 / 8, 0)
    cell = next(seeds_of(BY_NAME["QUANTIZED_16BIT_LSTM"]))
    assert cell.input("cell_state_in").scale == 1 / 2048
    assert cell.input("cell_bias").scale == cell.input("input").scale / 2
    for s in seeds_of(BY_NAME["BIDIRECTIONAL_SEQUENCE_RNN"]):
        both = any(p.name == "bw_output" for p in s.output_params)
        assert bool(s.input("merge_outputs").array) is not both


# Variations of samples: what is tried of an operation


def tried(name: str, **ranks: int) -> set[frozenset[str]]:
    """The traits of the variations in which they differ from the sample, in its group."""
    sample = first(name, **ranks)
    base = form_of(use_of(sample)[0])
    found = (form_of(use[0]) for v in variations(sample) if (use := use_of(v)))
    same = (f for f in found if (f.types, f.ranks) == (base.types, base.ranks))
    return {f.traits - base.traits for f in same}


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("CONV_2D", {"activation=1"}),
        ("CONV_2D", {"filter=variable"}),
        ("CONV_2D", {"filter=variable", "bias=variable"}),
        ("CONV_2D", {"relaxed=yes"}),
        ("CONV_2D", {"padding_left=+", "symmetric_columns=no"}),
        ("CONV_2D", {"stride_width=2", "stride_height=2"}),
        ("CONV_2D", {"stride_width=3+", "square_strides=no"}),
        ("CONV_2D", {"input.sizes=unknown", "output.sizes=unknown"}),
        ("ADD", {"input2.shape=last axis"}),
        ("ADD", {"input1=constant", "input2=constant"}),
        ("CONCATENATION", {"inputs.count=9+"}),
        ("SPLIT", {"outputs.count=9+", "num_splits=3+"}),
        ("DEPTHWISE_CONV_2D", {"depth_multiplier=2"}),
        ("GROUPED_CONV_2D", {"num_groups=1"}),
        ("DEPTH_TO_SPACE", {"block_size=3+"}),
    ],
)
def test_what_is_tried(name: str, traits: set[str]):
    found = tried(name, **({"input1": 4, "input2": 4} if name == "ADD" else {}))
    assert traits in found, sorted(map(sorted, found))


def test_windows_of_one_element_with_strides():
    found = tried("MAX_POOL_2D")
    for width, height in product(("1", "2", "3+"), repeat=2):
        window = {"filter_width=1", "filter_height=1"}
        window |= {f"stride_{n}={v}" for n, v in (("width", width), ("height", height)) if v != "1"}
        window |= {"square_strides=no"} if width != height else set()
        assert window in found


def test_ranks_that_change_begin_other_groups():
    sample = first("MEAN", input=4)
    ranks = {form_of(use[0]).ranks for v in variations(sample) if (use := use_of(v))}
    assert ranks == {"4 1 > 4", "4 1 > 3", "4 1 > 2", "4 1 > 1"}


# The rules of the sample devices

IMAGE, QUANTIZED = tensor(1, 4, 4, 2), tensor(1, 4, 4, 2, code=Q8)


def pool(filter_size: int, stride: int):
    window = (1, stride, stride, filter_size, filter_size, 0)
    return use("MAX_POOL_2D", [IMAGE, *window], IMAGE)


def mean(*axes: int):
    indexes = tensor(len(axes), code=I32, value=list(axes))
    return use("MEAN", [IMAGE, indexes, 1], tensor(1, 1, 1, 2))


def softmax(beta: float):
    return use("SOFTMAX", [IMAGE, beta], IMAGE)


@pytest.mark.parametrize(
    ("device", "asked", "supported"),
    [
        ("sample-float", add(), True),
        ("sample-float", use("RELU", [QUANTIZED], QUANTIZED), False),
        ("sample-quant", add(), False),
        ("sample-quant", use("RELU", [QUANTIZED], QUANTIZED), True),
        ("sample-minimal", add(), True),
        ("sample-minimal", use("RELU", [IMAGE], IMAGE), False),
        ("sample-float-engine", pool(1, 1), True),
        ("sample-float-engine", pool(1, 2), False),
        ("sample-float-engine", pool(2, 2), True),
        ("sample-float-engine", mean(1, 2), True),
        ("sample-float-engine", mean(1, 3), False),
        ("sample-float-engine", softmax(1.0), True),
        ("sample-float-engine", softmax(2.0), False),
        ("sample-float-engine", use("EXP", [IMAGE], IMAGE), False),
    ],
)
def test_rules(device: str, asked, supported: bool):
    assert RULES[device](asked) is supported
