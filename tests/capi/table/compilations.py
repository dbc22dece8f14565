"""Compilations."""

from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode, ResultCode
from tests.capi.client import operand_type, ref, u32s
from tests.capi.table.rows import BAD_DATA, BAD_STATE, NO_ERROR, Rows, out
from tests.capi.world import World

TOKEN = bytes(32)

row = Rows()

# Compilations

row("Compilation_create", "finished", NO_ERROR, lambda w: (w.finished_model, out()))
row("Compilation_create", "unfinished", BAD_STATE, lambda w: (w.open_model, out()))
row("Compilation_create", "invalid", BAD_STATE, lambda w: (w.invalid_model, out()))


def setting(function: str, code: ResultCode, state: str, *arguments: object) -> None:
    row(function, state, code, lambda w: (w.open_compilation, *arguments))


for preference in PreferenceCode:
    setting("Compilation_setPreference", NO_ERROR, preference.name, preference)
setting("Compilation_setPreference", BAD_DATA, "3", 3)
setting("Compilation_setPreference", BAD_DATA, "-1", -1)
for priority in PriorityCode:
    setting("Compilation_setPriority", NO_ERROR, priority.name, priority)
setting("Compilation_setPriority", BAD_DATA, "0", 0)
setting("Compilation_setPriority", BAD_DATA, "between two", PriorityCode.LOW + 1)
setting("Compilation_setTimeout", NO_ERROR, "a second", 10**9)
setting("Compilation_setTimeout", NO_ERROR, "none", 0)
setting("Compilation_setTimeout", NO_ERROR, "the longest", 2**64 - 1)
setting("Compilation_setCaching", NO_ERROR, "a directory", b"/tmp", TOKEN)
row(
    "Compilation_setTimeout",
    "device left to the runtime",
    BAD_DATA,
    lambda w: (w.free_choice_compilation, 10**9),
)
for name, last in (
    ("setPreference", (0,)),
    ("setPriority", (PriorityCode.MEDIUM,)),
    ("setTimeout", (10**9,)),
    ("setCaching", (b"/tmp", TOKEN)),
    ("finish", ()),
):
    row(
        f"Compilation_{name}",
        "finished",
        BAD_STATE,
        lambda w, last=last: (w.ready_compilation, *last),
    )
row(
    "Compilation_setTimeout",
    "finished, device left to the runtime",
    BAD_STATE,
    lambda w: (w.ready(for_device=False), 10**9),
)
row("Compilation_finish", "open", NO_ERROR, lambda w: (w.open_compilation,))
row("Compilation_finish", "free choice", NO_ERROR, lambda w: (w.free_choice_compilation,))


def vendor(w: World) -> tuple[object, ...]:
    """A model with a vendor's operation finishes, and no device executes it."""
    model = w.empty_model
    for _ in range(2):
        w.check("Model_addOperand", model, ref(operand_type(10001, (1,))))
    w.check("Model_addOperation", model, 10000, 1, u32s([0]), 1, u32s([1]))
    w.identify(model, [0], [1])
    w.check("Model_finish", model)
    return (w.compilation(model),)


row("Compilation_finish", "a vendor's operation", BAD_DATA, vendor)

for name in ("AlignmentFor", "PaddingFor"):
    for end, count in (("Input", 2), ("Output", 1)):
        called = f"Compilation_getPreferredMemory{name}{end}"
        row(called, "finished", NO_ERROR, lambda w: (w.ready_compilation, 0, out()))
        row(called, "open", BAD_STATE, lambda w: (w.open_compilation, 0, out()))
        row(called, "failed", BAD_STATE, lambda w: (w.failed_compilation, 0, out()))
        row(
            called,
            "index = count",
            BAD_DATA,
            lambda w, count=count: (w.ready_compilation, count, out()),
        )

for called in ("Execution_create", "Burst_create"):
    row(called, "finished", NO_ERROR, lambda w: (w.ready_compilation, out()))
    row(called, "open", BAD_STATE, lambda w: (w.open_compilation, out()))
    row(called, "failed", BAD_STATE, lambda w: (w.failed_compilation, out()))
