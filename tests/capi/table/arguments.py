"""An execution's inputs, outputs and settings."""

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import operand_type, pointer, ref
from tests.capi.table.rows import (
    BAD_DATA,
    BAD_STATE,
    NO_ERROR,
    UNEXPECTED_NULL,
    Arguments,
    Rows,
)
from tests.capi.world import World

row = Rows()

# Executions: inputs and outputs


def argument(name: str, state: str, code: ResultCode, *, index: int = 0, n: int = 8) -> None:
    for end in ("Input", "Output"):
        row(
            f"Execution_set{end}",
            state,
            code,
            lambda w: (getattr(w, name), index, None, pointer(w.a), n),
        )
        row(
            f"Execution_set{end}FromMemory",
            state,
            code,
            lambda w: (getattr(w, name), index, None, w.memory(bytes(64)), 0, n),
        )


argument("fresh_execution", "exact length", NO_ERROR)
argument("fresh_execution", "one byte less", BAD_DATA, n=7)
argument("fresh_execution", "one byte more", BAD_DATA, n=9)
argument("fresh_execution", "index -1", BAD_DATA, index=-1)
argument("fresh_execution", "index 999", BAD_DATA, index=999)
argument("set_execution", "set already", BAD_STATE)
argument("running_execution", "running", BAD_STATE)
argument("computed_execution", "computed", BAD_STATE)
argument("reusable_execution", "computed, reusable", BAD_STATE)
argument("failed_execution", "failed", BAD_STATE)


def typed(state: str, code: ResultCode, described: object) -> None:
    for end in ("Input", "Output"):
        row(
            f"Execution_set{end}",
            state,
            code,
            lambda w: (w.fresh_execution, 0, ref(described), pointer(w.a), 8),
        )


typed("type repeated", NO_ERROR, operand_type())
typed("type of another rank", BAD_DATA, operand_type(dimensions=(1, 2)))
typed("type of other dimensions", BAD_DATA, operand_type(dimensions=(3,)))
typed("type with less known", BAD_DATA, operand_type(dimensions=(0,)))
typed("no such type", BAD_DATA, operand_type(77))

for end in ("Input", "Output"):
    row(
        f"Execution_set{end}",
        "left out",
        NO_ERROR,
        lambda w: (w.fresh_execution, 0, None, None, 0),
    )
    row(
        f"Execution_set{end}",
        "null with a length",
        UNEXPECTED_NULL,
        lambda w: (w.fresh_execution, 0, None, None, 8),
    )
    row(
        f"Execution_set{end}",
        "length 0",
        BAD_DATA,
        lambda w: (w.fresh_execution, 0, None, pointer(w.a), 0),
    )
    row(
        f"Execution_set{end}FromMemory",
        "past the end",
        BAD_DATA,
        lambda w: (w.fresh_execution, 0, None, w.memory(), 1, 8),
    )
    row(
        f"Execution_set{end}FromMemory",
        "a file as a whole",
        BAD_DATA,
        lambda w: (w.fresh_execution, 0, None, w.memory(), 0, 0),
    )
row(
    "Execution_setInputFromMemory",
    "read only",
    NO_ERROR,
    lambda w: (w.fresh_execution, 0, None, w.read_only_memory, 0, 8),
)
row(  # ours: Android writes, and the process ends
    "Execution_setOutputFromMemory",
    "read only",
    BAD_DATA,
    lambda w: (w.fresh_execution, 0, None, w.read_only_memory, 0, 8),
)


def with_device_memory(offset: int, length: int, same: bool) -> Arguments:
    def arguments(w: World) -> tuple[object, ...]:
        compilation = w.ready()
        memory = w.device_memory(compilation)
        execution = w.execution(compilation if same else w.ready())
        return execution, 0, None, memory, offset, length

    return arguments


ROLE = "Execution_setInputFromMemory"
row(ROLE, "device's memory", NO_ERROR, with_device_memory(0, 0, same=True))
row(ROLE, "device's memory with a length", BAD_DATA, with_device_memory(0, 8, same=True))
row(ROLE, "device's memory with an offset", BAD_DATA, with_device_memory(1, 0, same=True))
row(ROLE, "device's memory of another role", BAD_DATA, with_device_memory(0, 0, same=False))


# Executions: settings

SETTINGS: dict[str, tuple[object, ...]] = {
    "Execution_setLoopTimeout": (10**9,),
    "Execution_setReusable": (True,),
    "Execution_enableInputAndOutputPadding": (True,),
    "Execution_setTimeout": (10**9,),
    "Execution_setMeasureTiming": (True,),
}
STAGES = {
    "fresh_execution": NO_ERROR,
    "running_execution": BAD_STATE,
    "computed_execution": BAD_STATE,
    "reusable_execution": BAD_STATE,
    "failed_execution": BAD_STATE,
}
for called, last in SETTINGS.items():
    for state, code in STAGES.items():
        row(called, state, code, lambda w, s=state, last=last: (getattr(w, s), *last))
for called in ("Execution_setTimeout", "Execution_setMeasureTiming"):
    row(called, "device left to the runtime", BAD_DATA, lambda w: (w.free_choice_execution, 1))
row(
    "Execution_enableInputAndOutputPadding",
    "inputs set",
    BAD_STATE,
    lambda w: (w.set_execution, True),
)
row("Execution_setLoopTimeout", "the longest", NO_ERROR, lambda w: (w.fresh_execution, 2**64 - 1))
row("Execution_setTimeout", "the longest", NO_ERROR, lambda w: (w.fresh_execution, 2**64 - 1))
