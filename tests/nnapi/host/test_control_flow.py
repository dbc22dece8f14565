"""IF and WHILE on the reference device: branches, loops, one inside the other, and their limits."""

import time

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.runtime import RunOptions
from tests.nnapi.build import one
from tests.nnapi.host.oracle import BOOL8, F32, I32, REFERENCE, RUNTIME
from tests.ort_devices.networks import Network

X = Operand(F32)  # of unknown rank
PAIR = Operand(F32, (2,))
ONE = Operand(I32, (1,))
FLAG = Operand(BOOL8, (1,))
YES, NO = np.array([True]), np.array([False])
NUMBERS = np.array([1.0, 5.0], np.float32)


def run(model, *arrays, **options):
    return RUNTIME.compile(model, REFERENCE).run(arrays, options=RunOptions(**options))


def binary(row, operand=X):
    """The operation of the model's two inputs."""
    return one(row, [operand, operand, 0], [operand])


def conditional(then, otherwise, *inputs, outputs=(X,)):
    """IF of the model's first input; the others go on."""
    return one(spec.IF, [FLAG, then, otherwise, *inputs], outputs)


def loop(condition, body, *inputs, outputs):
    """WHILE of the model's inputs."""
    return one(spec.WHILE, [condition, body, *inputs], outputs)


def below(*state):
    """Condition: the first input is less than the second."""
    net = Network(ONE, ONE, *state)
    return net.model(net.operation(spec.LESS, net.inputs[:2], FLAG))


def always(*state):
    """Condition: an input equals itself."""
    net = Network(*state)
    return net.model(net.operation(spec.EQUAL, net.inputs[:1] * 2, FLAG))


def increment(net):
    """The first input plus one."""
    return net.operation(spec.ADD, [net.inputs[0], np.ones(1, int), 0], ONE)


def unchanged(net):
    """The second input, by an operation."""
    return net.operation(spec.MAXIMUM, [net.inputs[1]] * 2, ONE)


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
    model = conditional(one(spec.CONCATENATION, [X, X, 0], [X]), ADD, X, X)
    assert run(model, YES, NUMBERS, NUMBERS)[0].tolist() == [1.0, 5.0, 1.0, 5.0]
    assert run(model, NO, NUMBERS, NUMBERS)[0].tolist() == [2.0, 10.0]


def test_a_branch_with_a_shape_that_is_not_declared_fails():
    joined = one(spec.CONCATENATION, [PAIR, PAIR, 0], [X])
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
        net = Network(X, X, activation)
        return net.model(*(net.operation(row, net.inputs, X) for row in rows))

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
    net = Network(X, X)
    less = net.operation(spec.LESS, net.inputs, FLAG)
    branches = [binary(rows[True, then]) for then in (True, False)]
    then = net.operation(spec.IF, [less, *branches, *net.inputs], X)
    model = conditional(net.model(then), binary(spec.MUL), X, X)
    a, b = np.array([3.0], np.float32), np.array([4.0 if inner else 2.0], np.float32)
    want = {(True, True): a + b, (True, False): a - b}.get((outer, inner), a * b)
    assert run(model, np.array([outer]), a, b)[0].tolist() == want.tolist()


def powers():
    """Body of (index, times, power, sum, base): power times base, sum plus power."""
    net = Network(ONE, ONE, X, X, X)
    _, times, power, total, base = net.inputs
    times = net.operation(spec.MUL, [times, np.ones(1, int), 0], ONE)
    power = net.operation(spec.MUL, [power, base, 0], X)
    total = net.operation(spec.ADD, [total, power, 0], X)
    return net.model(increment(net), times, power, total)


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
    body = Network(ONE, ONE, X, activation)
    sums = body.operation(spec.ADD, [body.inputs[2], *body.inputs[2:]], X)
    inner = body.model(increment(body), unchanged(body), sums)
    model = loop(below(X, activation), inner, ONE, ONE, X, activation, outputs=(ONE, ONE, X))
    relu6 = np.array(3, np.int32)
    assert run(model, *counted(2, NUMBERS), relu6)[2].tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: an input is omitted"):
        run(model, *counted(0), None, relu6)
    with pytest.raises(RuntimeFailure, match=r"OP_FAILED: .* is missing"):
        run(model, *counted(1), None, relu6)


def growing():
    """Body of (index, times, numbers): the numbers twice."""
    net = Network(ONE, ONE, X)
    _, times, numbers = net.inputs
    again = net.operation(spec.CONCATENATION, [numbers, numbers, 0], X)
    twice = net.operation(spec.ADD, [times, times, 0], ONE)
    half = net.operation(spec.SUB, [twice, times, 0], ONE)
    return net.model(increment(net), half, again)


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
    inner, net = Network(ONE, ONE, X), Network(ONE, ONE, X, ONE)
    more = inner.operation(spec.ADD, [inner.inputs[2], np.ones(1), 0], X)
    body = inner.model(increment(inner), unchanged(inner), more)
    given = below(X), body, np.zeros(1, int), net.inputs[3], net.inputs[2]
    _, _, more = net.apply(spec.WHILE, given, ONE, ONE, X)
    return net.model(increment(net), unchanged(net), more)


@pytest.mark.parametrize(("times", "turns"), [(3, 2), (3, 0), (0, 3), (2, 5)])
def test_a_loop_in_a_loop(times, turns):
    model = loop(below(X, ONE), nested(), ONE, ONE, X, ONE, outputs=(ONE, ONE, X))
    given = counted(times, NUMBERS, np.array([turns], np.int32))
    assert run(model, *given)[2].tolist() == (NUMBERS + times * turns).tolist()


def test_a_branch_in_a_loop():
    """Numbers are added while their sum is below ten, and left alone from then on."""
    net, same = Network(ONE, ONE, X, X), Network(X, X)
    less = net.operation(spec.LESS, [net.inputs[2], np.array([10.0])], FLAG)
    greater = same.operation(spec.MAXIMUM, same.inputs[:1] * 2, X)
    given = less, ADD, same.model(greater), *net.inputs[2:]
    total = net.operation(spec.IF, given, X)
    body = net.model(increment(net), unchanged(net), total)
    model = loop(below(X, X), body, ONE, ONE, X, X, outputs=(ONE, ONE, X))
    start, step = np.zeros(1, np.float32), np.array([4.0], np.float32)
    assert run(model, *counted(2, start, step))[2].tolist() == [8.0]
    assert run(model, *counted(9, start, step))[2].tolist() == [12.0]


def endless():
    net = Network(X)
    body = net.model(net.operation(spec.ADD, [*net.inputs * 2, 0], X))
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
    net = Network(X, X)
    models = [endless().operands[i].value for i in endless().operations[0].inputs[:2]]
    inner = net.operation(spec.WHILE, [*models, net.inputs[0]], X)
    model = conditional(net.model(inner), ADD, X, X)
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
