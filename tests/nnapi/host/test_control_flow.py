"""IF and WHILE on the reference device: branches, loops, one inside the other, and their limits."""

import time

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.chain import Chain, run
from tests.nnapi.host.oracle import BOOL8, F32, I32

X = Operand(F32)  # of unknown rank
PAIR = Operand(F32, (2,))
ONE = Operand(I32, (1,))
FLAG = Operand(BOOL8, (1,))
YES, NO = np.array([True]), np.array([False])
NUMBERS = np.array([1.0, 5.0], np.float32)


def binary(row, operand=X):
    """The operation of the model's two inputs."""
    chain = Chain(operand, operand)
    return chain.model(*chain.apply(row, (0, 1, *chain.scalars(0)), operand))


def conditional(then, otherwise, *inputs, outputs=(X,)):
    """IF of the model's first input; the others go on."""
    chain = Chain(FLAG, *inputs)
    branches = chain.inner(then), chain.inner(otherwise)
    return chain.model(*chain.apply(spec.IF, (0, *branches, *range(1, len(inputs) + 1)), *outputs))


def loop(condition, body, *inputs, outputs):
    """WHILE of the model's inputs."""
    chain = Chain(*inputs)
    models = chain.inner(condition), chain.inner(body)
    return chain.model(*chain.apply(spec.WHILE, (*models, *range(len(inputs))), *outputs))


def below(*state):
    """Condition: the first input is less than the second."""
    chain = Chain(ONE, ONE, *state)
    return chain.model(*chain.apply(spec.LESS, (0, 1), FLAG))


def always(*state):
    """Condition: an input equals itself."""
    chain = Chain(*state)
    return chain.model(*chain.apply(spec.EQUAL, (0, 0), FLAG))


def increment(chain, index):
    """The index plus one."""
    one = chain.constant(np.ones(1, np.int32), ONE)
    return chain.apply(spec.ADD, (index, one, *chain.scalars(0)), ONE)[0]


def counted(times, *arrays):
    """Inputs of a loop that runs that many times."""
    return (np.zeros(1, np.int32), np.array([times], np.int32), *arrays)


ADD, SUB = binary(spec.ADD), binary(spec.SUB)


@pytest.mark.parametrize("operand", [X, PAIR], ids=["unknown rank", "known"])
def test_the_condition_chooses_a_branch(operand):
    add, sub = binary(spec.ADD, operand), binary(spec.SUB, operand)
    model = conditional(add, sub, operand, operand, outputs=(operand,))
    assert run(model, YES, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]
    assert run(model, NO, NUMBERS, NUMBERS)[0].tolist() == [0.0, 0.0]


def test_both_branches_may_be_one_model():
    model = conditional(ADD, ADD, X, X)
    assert run(model, YES, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]
    assert run(model, NO, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]


def test_a_branch_decides_the_shape():
    chain = Chain(X, X)
    joined = chain.model(*chain.apply(spec.CONCATENATION, (0, 1, *chain.scalars(0)), X))
    model = conditional(joined, ADD, X, X)
    assert run(model, YES, NUMBERS, NUMBERS)[0].tolist() == [1.0, 5.0, 1.0, 5.0]
    assert run(model, NO, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]


def test_a_branch_with_a_shape_that_is_not_declared_fails():
    chain = Chain(PAIR, PAIR)
    joined = chain.model(*chain.apply(spec.CONCATENATION, (0, 1, *chain.scalars(0)), X))
    model = conditional(joined, binary(spec.ADD, PAIR), PAIR, PAIR, outputs=(PAIR,))
    assert run(model, NO, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: .*\(4,\) is declared as \(2,\)"):
        run(model, YES, NUMBERS, NUMBERS)


def test_an_error_inside_a_branch_is_the_runs():
    model = conditional(ADD, SUB, X, X)
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: sizes .* do not broadcast"):
        run(model, YES, NUMBERS, np.ones(3, np.float32))


def test_several_outputs_and_a_scalar_input():
    """A scalar is handed to the branches as well: the activation of their operations."""
    activation = Operand(OperandCode.INT32)

    def branch(*rows):
        chain = Chain(X, X, activation)
        return chain.model(*(chain.apply(row, (0, 1, 2), X)[0] for row in rows))

    then, otherwise = branch(spec.ADD, spec.SUB), branch(spec.SUB, spec.MUL)
    model = conditional(then, otherwise, X, X, activation, outputs=(X, X))
    relu = np.array(1, np.int32)
    sums, differences = run(model, YES, NUMBERS, 2 * NUMBERS, relu)
    assert (sums.tolist(), differences.tolist()) == ([3.0, 15.0], [0.0, 0.0])
    differences, products = run(model, NO, NUMBERS, 2 * NUMBERS, relu)
    assert (differences.tolist(), products.tolist()) == ([0.0, 0.0], [2.0, 50.0])


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_a_branch_may_branch(outer, inner):
    """The inner condition is computed: whether the first number is less than the second."""
    rows = {(True, True): spec.ADD, (True, False): spec.SUB}
    chain = Chain(X, X)
    (less,) = chain.apply(spec.LESS, (0, 1), FLAG)
    branches = [chain.inner(binary(rows[True, then])) for then in (True, False)]
    then = chain.model(*chain.apply(spec.IF, (less, *branches, 0, 1), X))
    model = conditional(then, binary(spec.MUL), X, X)
    a, b = np.array([3.0], np.float32), np.array([4.0 if inner else 2.0], np.float32)
    want = {(True, True): a + b, (True, False): a - b}.get((outer, inner), a * b)
    assert run(model, np.array([outer]), a, b)[0].tolist() == want.tolist()


def powers():
    """Body of (index, times, power, sum, base): power times base, sum plus power."""
    chain = Chain(ONE, ONE, X, X, X)
    none = chain.scalars(0)
    index = increment(chain, 0)
    (times,) = chain.apply(spec.MUL, (1, chain.constant(np.ones(1, np.int32), ONE), *none), ONE)
    (power,) = chain.apply(spec.MUL, (2, 4, *none), X)
    (total,) = chain.apply(spec.ADD, (3, power, *none), X)
    return chain.model(index, times, power, total)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_loop_repeats_its_body_on_what_it_gave(times):
    """Two outputs beside state (power, sum) and what never changes (base)."""
    inputs = (ONE, ONE, X, X, X)
    model = loop(below(X, X, X), powers(), *inputs, outputs=(ONE, ONE, X, X))
    base = np.array([2.0, -3.0], np.float32)
    given = counted(times, np.ones(2, np.float32), np.zeros(2, np.float32), base)
    index, _, power, total = run(model, *given)
    assert index.tolist() == [times]
    assert power.tolist() == (base**times).tolist()
    assert total.tolist() == sum((base**n for n in range(1, times + 1)), np.zeros(2)).tolist()


def test_a_loop_may_keep_state_to_itself():
    model = loop(below(X, X, X), powers(), ONE, ONE, X, X, X, outputs=(ONE,))
    ones = np.ones(1, np.float32)
    assert [r.tolist() for r in run(model, *counted(4, ones, ones, ones))] == [[4]]


def test_a_loop_that_never_runs_gives_copies():
    model = loop(below(X, X, X), powers(), ONE, ONE, X, X, X, outputs=(ONE, ONE, X, X))
    given = counted(0, *np.ones((3, 2), np.float32))
    results = run(model, *given)
    for result, array in zip(results, given, strict=False):
        assert result.tolist() == array.tolist()
        assert not np.shares_memory(result, array)


def test_a_loop_hands_on_scalars_and_what_is_left_out():
    """A scalar is the activation of the body; numbers that are left out, the body misses."""
    activation = Operand(OperandCode.INT32)
    body = Chain(ONE, ONE, X, activation)
    (sums,) = body.apply(spec.ADD, (2, 2, 3), X)
    (times,) = body.apply(spec.MAXIMUM, (1, 1), ONE)
    inner = body.model(increment(body, 0), times, sums)
    model = loop(below(X, activation), inner, ONE, ONE, X, activation, outputs=(ONE, ONE, X))
    relu6 = np.array(3, np.int32)
    assert run(model, *counted(2, NUMBERS), relu6)[2].tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: an input is omitted"):
        run(model, *counted(0), None, relu6)
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: .* is missing"):
        run(model, *counted(1), None, relu6)


def growing():
    """Body of (index, times, numbers): the numbers twice."""
    chain = Chain(ONE, ONE, X)
    (again,) = chain.apply(spec.CONCATENATION, (2, 2, *chain.scalars(0)), X)
    (times,) = chain.apply(spec.ADD, (1, 1, *chain.scalars(0)), ONE)
    (half,) = chain.apply(spec.SUB, (times, 1, *chain.scalars(0)), ONE)
    return chain.model(increment(chain, 0), half, again)


@pytest.mark.parametrize("times", [0, 1, 3, 12])
def test_shapes_may_change_from_turn_to_turn(times):
    """Twelve shapes are more than a model keeps plans for."""
    model = loop(below(X), growing(), ONE, ONE, X, outputs=(ONE, ONE, X))
    _, _, numbers = run(model, *counted(times, NUMBERS))
    assert numbers.tolist() == NUMBERS.tolist() * 2**times


def test_a_loop_that_grows_beyond_its_declared_size_fails():
    model = loop(below(X), growing(), ONE, ONE, X, outputs=(ONE, ONE, PAIR))
    assert run(model, *counted(0, NUMBERS))[2].tolist() == NUMBERS.tolist()
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: .*\(4,\) is declared as \(2,\)"):
        run(model, *counted(1, NUMBERS))


def nested():
    """Body of (index, times, numbers, turns): a loop of `turns` turns that adds one each."""
    inner = Chain(ONE, ONE, X)
    (more,) = inner.apply(
        spec.ADD, (2, inner.constant(np.ones(1, np.float32), X), *inner.scalars(0)), X
    )
    (limit,) = inner.apply(spec.MAXIMUM, (1, 1), ONE)
    body = inner.model(increment(inner, 0), limit, more)
    chain = Chain(ONE, ONE, X, ONE)
    start = chain.constant(np.zeros(1, np.int32), ONE)
    models = chain.inner(below(X)), chain.inner(body)
    _, _, more = chain.apply(spec.WHILE, (*models, start, 3, 2), ONE, ONE, X)
    (times,) = chain.apply(spec.MAXIMUM, (1, 1), ONE)
    return chain.model(increment(chain, 0), times, more)


@pytest.mark.parametrize(("times", "turns"), [(3, 2), (3, 0), (0, 3), (2, 5)])
def test_a_loop_in_a_loop(times, turns):
    model = loop(below(X, ONE), nested(), ONE, ONE, X, ONE, outputs=(ONE, ONE, X))
    given = counted(times, NUMBERS, np.array([turns], np.int32))
    assert run(model, *given)[2].tolist() == (NUMBERS + times * turns).tolist()


def test_a_branch_in_a_loop():
    """Numbers are added while their sum is below ten, and left alone from then on."""
    chain = Chain(ONE, ONE, X, X)
    ten = chain.constant(np.array([10.0], np.float32), X)
    (less,) = chain.apply(spec.LESS, (2, ten), FLAG)
    same = Chain(X, X)
    (greater,) = same.apply(spec.MAXIMUM, (0, 0), X)
    branches = chain.inner(ADD), chain.inner(same.model(greater))
    (total,) = chain.apply(spec.IF, (less, *branches, 2, 3), X)
    (times,) = chain.apply(spec.MAXIMUM, (1, 1), ONE)
    body = chain.model(increment(chain, 0), times, total)
    model = loop(below(X, X), body, ONE, ONE, X, X, outputs=(ONE, ONE, X))
    start, step = np.zeros(1, np.float32), np.array([4.0], np.float32)
    assert run(model, *counted(2, start, step))[2].tolist() == [8.0]
    assert run(model, *counted(9, start, step))[2].tolist() == [12.0]


def endless():
    chain = Chain(X)
    body = chain.model(*chain.apply(spec.ADD, (0, 0, *chain.scalars(0)), X))
    return loop(always(X), body, X, outputs=(X,))


ZERO = np.zeros(1, np.float32)
MILLISECOND = 1_000_000


def test_a_loop_ends_at_its_timeout():
    began, busy = time.monotonic(), time.process_time()
    with pytest.raises(RuntimeFailure, match=r"_TRANSIENT: WHILE ran longer than 20000000 ns"):
        run(endless(), ZERO, loop_timeout_ns=20 * MILLISECOND)
    assert time.monotonic() - began > 0.02
    assert time.process_time() - busy < 1.5  # the default would be 2 seconds


def test_a_loop_ends_at_the_deadline_of_the_run():
    with pytest.raises(RuntimeFailure, match=r"MISSED_DEADLINE_TRANSIENT: the run's deadline"):
        run(endless(), ZERO, timeout_ns=20 * MILLISECOND, loop_timeout_ns=5_000 * MILLISECOND)


def test_a_loop_inside_a_branch_ends_at_its_timeout():
    chain = Chain(X, X)
    models = [endless().operands[i].value for i in endless().operations[0].inputs[:2]]
    inner = chain.model(*chain.apply(spec.WHILE, (*map(chain.inner, models), 0), X))
    model = conditional(inner, ADD, X, X)
    assert run(model, NO, ZERO, ZERO)[0].tolist() == [0.0]
    with pytest.raises(RuntimeFailure, match="MISSED_DEADLINE_TRANSIENT: WHILE"):
        run(model, YES, ZERO, ZERO, loop_timeout_ns=20 * MILLISECOND)


def test_a_loop_within_its_timeout():
    """Turns are not what is limited, but their time: a thousand turns pass."""
    model = loop(below(X, X, X), powers(), ONE, ONE, X, X, X, outputs=(ONE,))
    ones = np.ones(1, np.float32)
    given = counted(1000, ones, ones, ones)
    (index,) = run(model, *given, loop_timeout_ns=15_000 * MILLISECOND)
    assert index.tolist() == [1000]
