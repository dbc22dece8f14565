"""The table of operations against lists of operands that NNAPI accepts and refuses."""

import json
from pathlib import Path

import pytest

from ep_nnapi.nnapi import spec as table
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.model import TypedOperand
from ep_nnapi.nnapi.spec import BY_CODE, BY_NAME, OPERATIONS
from tests.cases import each
from tests.nnapi.typed import operand, operands, samples, typed

FACTS = Path(__file__).parents[3] / "shared" / "nnapi_facts.json"
needs_facts = pytest.mark.skipif(not FACTS.exists(), reason="the facts are not here")


def facts():
    return json.loads(FACTS.read_text())["operations"]


def level_of(name, inputs, outputs, feature_level=8):
    """The level that the row gives for operands of those types."""
    channel = 3 if name == "DEPTHWISE_CONV_2D" else 0
    seen = typed([operand(code, channel=channel) for code in (*inputs, *outputs)])
    return BY_NAME[name].match(seen[: len(inputs)], seen[len(inputs) :], feature_level).level


def accepts_from(name, level, inputs, outputs):
    assert level_of(name, inputs, outputs, level) == level
    if level > 1:
        with pytest.raises(Reject) as caught:
            level_of(name, inputs, outputs, level - 1)
        assert caught.value.reason is Reason.LEVEL


def test_every_operation_is_there_once():
    assert [op.code for op in OPERATIONS] == list(range(106))
    assert len(BY_CODE) == len(BY_NAME) == 106
    assert {op.name for op in OPERATIONS} == {name for name, *_ in samples()}
    assert all(getattr(table, op.name) is op for op in OPERATIONS)


@each("name", [op.name for op in OPERATIONS])
def test_accepted_from_its_level_on(name):
    mine = [s for s in samples() if s[0] == name]
    assert mine
    for sample in mine:
        accepts_from(*sample)
    assert BY_NAME[name].level == min(level for _, level, *_ in mine)


@each("op", OPERATIONS)
def test_names_are_unambiguous(op):
    for form in op.input_params:
        for output_form in op.output_params:
            names = [p.name for p in form + output_form]
            assert len(names) == len(set(names)), names
    assert set(op.ranks) <= {p.name for form in op.input_params + op.output_params for p in form}


@each("op", OPERATIONS)
def test_every_type_swapped_for_every_other(op):
    """Swapping one operand's type is refused unless the new list is one of the row's own."""
    lists = {(tuple(i), tuple(o)) for n, _, i, o in samples() if n == op.name}
    own = lists | {
        (tuple(t.code(p.type) for p in form), tuple(t.code(p.type) for p in outs))
        for t in op.typings
        for form in op.input_params
        for outs in op.output_params
    }
    for inputs, outputs in lists:
        ends = len(inputs), len(outputs)
        legal = {(i[: ends[0]], o[: ends[1]]) for i, o in own}  # operands at the ends may lack
        for at in range(sum(ends)):
            if op.name in ("IF", "WHILE") and at >= len(inputs) - 2:
                continue  # any type goes
            for code in OperandCode:
                swapped = [*inputs, *outputs]
                swapped[at] = code
                now = (tuple(swapped[: ends[0]]), tuple(swapped[ends[0] :]))
                if now not in legal:
                    with pytest.raises(Reject):
                        level_of(op.name, *now)


REFUSED = [
    ("ADD", "2*F32", "F32", Reason.OP),
    ("ADD", "2*F32 i i", "F32", Reason.OP),
    ("ADD", "2*F32 i", "2*F32", Reason.OP),
    ("ADD", "F32 F16 i", "F32", Reason.DTYPE),
    ("ADD", "2*F32 f", "F32", Reason.DTYPE),
    ("ADD", "2*F32 i", "F16", Reason.DTYPE),
    ("ADD", "2*B8 i", "B8", Reason.DTYPE),
    ("DIV", "2*Q8 i", "Q8", Reason.DTYPE),
    ("CONCATENATION", "i", "F32", Reason.OP),
    ("CONCATENATION", "F32 i F32", "F32", Reason.DTYPE),
    ("CONV_2D", "3*F32 5*i", "F32", Reason.DTYPE),
    ("CONV_2D", "3*F32 4*i b i", "F32", Reason.OP),
    ("CONV_2D", "3*F32 7*i b i", "F32", Reason.OP),
    ("CONV_2D", "2*Q8 Q8 4*i", "Q8", Reason.DTYPE),
    ("CONV_2D", "Q8 Q8S I32 4*i", "Q8", Reason.DTYPE),
    ("DEQUANTIZE", "Q16Y", "F32", Reason.DTYPE),
    ("EMBEDDING_LOOKUP", "F32 F32", "F32", Reason.DTYPE),
    ("HASHTABLE_LOOKUP", "I32 I32 F32", "F32 I32", Reason.DTYPE),
    ("L2_POOL_2D", "Q8 6*i", "Q8", Reason.DTYPE),
    ("LSTM", "20*F32 i 2*f 2*F32", "4*F32", Reason.OP),
    ("RESIZE_BILINEAR", "F16 f f", "F16", Reason.DTYPE),
    ("RESIZE_BILINEAR", "F32 i f", "F32", Reason.DTYPE),
    ("RESIZE_NEAREST_NEIGHBOR", "F32 i i", "F32", Reason.OP),
    ("SOFTMAX", "F16 f", "F16", Reason.DTYPE),
    ("BIDIRECTIONAL_SEQUENCE_RNN", "12*F32 i 2*b", "5*F32", Reason.OP),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "48*F32 i 2*f 2*b 8*F32", "3*F32", Reason.OP),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "48*F32 i 2*f 2*b 8*F32", "4*F32", Reason.OP),
    ("CAST", "Q8S", "F32", Reason.DTYPE),
    ("CAST", "Q8C", "Q8C", Reason.DTYPE),
    ("EQUAL", "2*F32", "F32", Reason.DTYPE),
    ("LOGICAL_AND", "2*I32", "I32", Reason.DTYPE),
    ("PAD_V2", "Q8 I32 f", "Q8", Reason.DTYPE),
    ("QUANTIZE", "F32", "Q16Y", Reason.DTYPE),
    ("REDUCE_SUM", "Q8 I32 b", "Q8", Reason.DTYPE),
    ("MEAN", "F32 I32 b", "F32", Reason.DTYPE),
    ("RSQRT", "I32", "I32", Reason.DTYPE),
    ("SELECT", "F32 2*F32", "F32", Reason.DTYPE),
    ("SPLIT", "F32 i i", "F32 F16", Reason.DTYPE),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "20*F32 i 2*f b 4*F32", "2*F32", Reason.OP),
    ("IF", "I32 2*m F32", "F32", Reason.DTYPE),
    ("IF", "B8 m F32", "F32", Reason.DTYPE),
    ("WHILE", "2*m", "F32", Reason.OP),
    ("FILL", "I32 f", "F16", Reason.DTYPE),
    ("RANK", "F32", "I32", Reason.DTYPE),
    ("BATCH_MATMUL", "2*F32", "F32", Reason.OP),
    ("BATCH_MATMUL", "2*Q8 2*b", "Q8", Reason.DTYPE),
    ("PACK", "i", "F32", Reason.OP),
]


@pytest.mark.parametrize(("name", "inputs", "outputs", "reason"), REFUSED)
def test_refused_at_every_level(name, inputs, outputs, reason):
    with pytest.raises(Reject) as caught:
        BY_NAME[name].match(operands(inputs), operands(outputs), 8)
    assert caught.value.reason is reason, caught.value


RANKS = [
    ("ADD", "2*F32 i", 0, (1, 4)),
    ("ADD", "2*F32 i", 1, (1, 4)),
    ("CONV_2D", "3*F32 4*i", 0, (4, 4)),
    ("CONV_2D", "3*F32 4*i", 1, (4, 4)),
    ("CONV_2D", "3*F32 4*i", 2, (1, 1)),
    ("CONCATENATION", "3*F32 i", 2, (1, 4)),
    ("FULLY_CONNECTED", "3*F32 i", 0, (2, 4)),
    ("FULLY_CONNECTED", "3*F32 i", 1, (2, 2)),
    ("MAX_POOL_2D", "F32 6*i", 0, (4, 4)),
    ("RESHAPE", "F32 I32", 0, (1, 4)),
    ("UNIDIRECTIONAL_SEQUENCE_RNN", "5*F32 2*i", 0, (3, 3)),
    ("HEATMAP_MAX_KEYPOINT", "2*F32 b", 0, (4, 4)),
    ("BATCH_MATMUL", "2*F32 2*b", 0, (2, 4)),
    ("REVERSE", "F32 I32", 0, (1, 8)),
    ("REVERSE", "F32 I32", 1, (1, 1)),
    ("MIRROR_PAD", "F32 I32 i", 1, (2, 2)),
    ("ABS", "F32", 0, (1, 9)),
]


@pytest.mark.parametrize(("name", "inputs", "at", "limits"), RANKS)
def test_ranks_on_both_sides_of_the_limits(name, inputs, at, limits):
    outs = operands("2*F32" if name == "HEATMAP_MAX_KEYPOINT" else "F32")
    for rank in range(1, 10):
        given = operands(inputs)
        given[at] = TypedOperand(operand(given[at].operand.type, *[0] * rank), at)
        if limits[0] <= rank <= limits[1]:
            BY_NAME[name].match(given, outs, 8)
        else:
            with pytest.raises(Reject) as caught:
                BY_NAME[name].match(given, outs, 8)
            assert caught.value.reason is Reason.RANK


@needs_facts
def test_facts_every_signature_from_its_level_on():
    alias = {"SUBGRAPH": "MODEL"}
    count = 0
    for name, fact in facts().items():
        for signature in fact.get("signatures", ()):
            ins, outs = (
                [OperandCode[alias.get(t, t)] for t in signature[side]] for side in ("in", "out")
            )
            accepts_from(name, signature["level"], ins, outs)
            count += 1
    assert count >= 600


@needs_facts
def test_facts_names_codes_and_levels():
    mine = {op.name: (op.code, op.level) for op in OPERATIONS}
    assert mine == {name: (fact["code"], fact["level"]) for name, fact in facts().items()}


@needs_facts
def test_facts_ranks():
    for name, fact in facts().items():
        op = BY_NAME[name]
        for at, ranks in fact.get("validator_ranks", {}).items():
            many = any(p.many for p in op.input_params[0])
            param = op.input_params[0][0 if many else int(at)]
            assert op.ranks[param.name] == (min(ranks), max(ranks)), (name, param.name)
        documented = fact.get("rank") or {}
        if "max" in documented:
            first = op.input_params[0][0].name
            low, high = op.ranks[first if first in op.ranks else "input"]
            assert high == documented["max"], name
            assert low >= documented.get("min", 1), name


@needs_facts
def test_facts_operands_that_cases_leave_out():
    for name, fact in facts().items():
        for at in fact.get("omitted_in_corpus") or ():
            assert BY_NAME[name].input_params[0][at].optional, (name, at)
