"""A Python process forks while another thread computes through the C API."""

import os
import signal

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.world import World


def test_a_child_is_told_that_its_parents_execution_does_not_end(world: World) -> None:
    compilation = world.ready()
    execution = world.set_all(world.execution(compilation))
    with world.slow(compilation) as go:
        event = world.make("Execution_startCompute", execution)
        child = os.fork()
        if not child:
            signal.alarm(60)
            code = world.nn.Event_wait(event)
            os._exit(code if world.nn.Execution_compute(execution) == ResultCode.BAD_STATE else 99)
        status = os.waitpid(child, 0)[1]
        go.set()
        world.check("Event_wait", event)
    assert os.waitstatus_to_exitcode(status) == ResultCode.DEAD_OBJECT
    assert world.out.tolist() == [11, 22]
