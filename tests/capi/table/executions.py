"""Executions computing, their results, events."""

from tests.capi.table.rows import (
    BAD_DATA,
    BAD_STATE,
    DIMS,
    HUGE,
    NO_ERROR,
    OP_FAILED,
    UNEXPECTED_NULL,
    Arguments,
    Rows,
    out,
)
from tests.capi.world import World

row = Rows()

# Executions: computing

COMPUTING = {
    "fresh_execution": BAD_DATA,
    "set_execution": NO_ERROR,
    "running_execution": BAD_STATE,
    "computed_execution": BAD_STATE,
    "reusable_execution": NO_ERROR,
    "failed_execution": BAD_STATE,
}
for state, code in COMPUTING.items():
    row("Execution_compute", state, code, lambda w, s=state: (getattr(w, s),))
    row("Execution_startCompute", state, code, lambda w, s=state: (getattr(w, s), out()))
    row(
        "Execution_startComputeWithDependencies",
        state,
        code,
        lambda w, s=state: (getattr(w, s), None, 0, 0, out()),
    )


def burst_of(state: str, same: bool = True) -> Arguments:
    def arguments(w: World) -> tuple[object, ...]:
        compilation = w.ready()
        execution = w.execution(compilation)
        if state != "fresh":
            w.set_all(execution)
        if state == "computed":
            w.check("Execution_compute", execution)
        return execution, w.burst(compilation if same else w.ready())

    return arguments


row("Execution_burstCompute", "set", NO_ERROR, burst_of("set"))
row("Execution_burstCompute", "fresh", BAD_DATA, burst_of("fresh"))
row("Execution_burstCompute", "computed", BAD_STATE, burst_of("computed"))
row("Execution_burstCompute", "another compilation", BAD_DATA, burst_of("set", same=False))

FENCED = "Execution_startComputeWithDependencies"
row(
    FENCED,
    "after an event",
    NO_ERROR,
    lambda w: (w.set_execution, w.devices(w.event), 1, 10**9, out()),
)
row(
    FENCED,
    "null with a count",
    UNEXPECTED_NULL,
    lambda w: (w.set_execution, None, 1, 0, out()),
)
row(
    FENCED,
    "null among them",
    UNEXPECTED_NULL,
    lambda w: (w.set_execution, w.devices(w.event, 0), 2, 0, out()),
)
row(
    FENCED,
    "a count nobody has",
    BAD_DATA,
    lambda w: (w.set_execution, w.devices(w.event, 1), HUGE, 0, out()),
)
row(
    FENCED,
    "outputs of unknown dimensions",
    BAD_DATA,
    lambda w: (w.dynamic_execution, None, 0, 0, out()),
)
row(
    FENCED,
    "a duration, device left to the runtime",
    BAD_DATA,
    lambda w: (w.set_all(w.free_choice_execution), None, 0, 10**9, out()),
)
row("Execution_startCompute", "unknown output", NO_ERROR, lambda w: (w.dynamic_execution, out()))


# Executions: results

for called, space in (("Rank", out()), ("Dimensions", DIMS)):
    function = f"Execution_getOutputOperand{called}"
    for state, code in {
        "fresh_execution": BAD_STATE,
        "set_execution": BAD_STATE,
        "running_execution": BAD_STATE,
        "failed_execution": BAD_STATE,
        "computed_execution": NO_ERROR,
        "reusable_execution": NO_ERROR,
    }.items():
        row(function, state, code, lambda w, s=state, space=space: (getattr(w, s), 0, space))
    for index in (-1, 1):
        row(
            function,
            f"index {index}",
            BAD_DATA,
            lambda w, i=index, space=space: (w.computed_execution, i, space),
        )

for duration in range(4):
    for state, code in {
        "measured_execution": NO_ERROR,
        "computed_execution": BAD_STATE,
        "set_execution": BAD_STATE,
        "running_execution": BAD_STATE,
    }.items():
        row(
            "Execution_getDuration",
            f"{state}, duration {duration}",
            code,
            lambda w, s=state, d=duration: (getattr(w, s), d, out()),
        )
for duration in (-1, 4):
    row(
        "Execution_getDuration",
        f"duration {duration}",
        BAD_DATA,
        lambda w, d=duration: (w.measured_execution, d, out()),
    )


# Events

row("Event_wait", "succeeding", NO_ERROR, lambda w: (w.event,))
row("Event_wait", "failing", OP_FAILED, lambda w: (w.failed_event,))
row("Event_createFromSyncFenceFd", "-1", BAD_DATA, lambda w: (-1, out()))
row("Event_createFromSyncFenceFd", "a file", BAD_DATA, lambda w: (w.file(b""), out()))
row("Event_getSyncFenceFd", "any", BAD_DATA, lambda w: (w.event, out()))
