"""Results of each function in each state: the NDK's documentation as a table.

The codes are Android's; a comment says so where one is ours.
"""

from tests.capi.table import (
    arguments,
    building,
    compilations,
    devices,
    executions,
    memories,
    models,
)

ROWS = [
    row
    for part in (devices, building, models, compilations, arguments, executions, memories)
    for row in part.row
]
