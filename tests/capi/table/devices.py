"""The runtime, its devices, and extensions, of which none is known here."""

from tests.capi.table.rows import BAD_DATA, BAD_STATE, DATA, NO_ERROR, Rows, out

row = Rows()

# The runtime and its devices

row("getDeviceCount", "any", NO_ERROR, lambda w: (out(),))
row("getDevice", "first", NO_ERROR, lambda w: (0, out()))
row("getDevice", "past the last", BAD_DATA, lambda w: (1000, out()))
for name in ("getName", "getVersion", "getType", "getFeatureLevel"):
    row(f"Device_{name}", "any", NO_ERROR, lambda w: (w.device, out()))
row("Device_getExtensionSupport", "any", NO_ERROR, lambda w: (w.device, b"com.example", out()))
row("Device_wait", "any", NO_ERROR, lambda w: (w.device,))


# Extensions: none is known here

row("Model_getExtensionOperandType", "any", BAD_DATA, lambda w: (w.open_model, b"x.y", 0, out()))
row("Model_getExtensionOperationType", "any", BAD_DATA, lambda w: (w.open_model, b"x.y", 0, out()))
row("Model_setOperandExtensionData", "own type", BAD_DATA, lambda w: (w.open_model, 0, DATA, 4))
row("Model_setOperandExtensionData", "no operand", BAD_DATA, lambda w: (w.open_model, 9, DATA, 4))
row(
    "Model_setOperandExtensionData", "finished", BAD_STATE, lambda w: (w.finished_model, 0, DATA, 4)
)
row(
    "Compilation_addExtensionAttribute",
    "open",
    BAD_DATA,
    lambda w: (w.open_compilation, b"x.y", 0, DATA, 4),
)
row(
    "Compilation_addExtensionAttribute",
    "finished",
    BAD_STATE,
    lambda w: (w.ready_compilation, b"x.y", 0, DATA, 4),
)
row(
    "Execution_addExtensionAttribute",
    "fresh",
    BAD_DATA,
    lambda w: (w.fresh_execution, b"x.y", 0, DATA, 4),
)
row(
    "Execution_addExtensionAttribute",
    "computed",
    BAD_STATE,
    lambda w: (w.computed_execution, b"x.y", 0, DATA, 4),
)
