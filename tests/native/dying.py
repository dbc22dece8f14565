"""Sessions on a library that ends the process in one function, each start in a forked process.

python -m tests.native.dying MODEL FOLDER: FOLDER/cases.json has the cases; ends.json gets the exit
statuses of two starts of each, N.npz the results of the second.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

import ep_nnapi
from tests.native.alternatives import outcome
from tests.native.sessions import devices
from tests.nnapi.library.recorded import DIES, shim_at

Case = tuple[str, str, dict[str, str]]
"""A function, who calls it, and options."""


def start(case: Case, model: Path, folder: Path, out: Path) -> None:
    """One start, in the process that this is."""
    name, maker, options = case
    shim_at(options["runtime"]).fault(name, DIES)
    with np.load(folder / "feeds.npz") as feeds:
        given = {name: feeds[name] for name in feeds}
    found = outcome(maker, model, given, folder, **options)
    np.savez(out, *found.results)


def ended(case: Case, model: Path, folder: Path, out: Path) -> int:
    """The exit status of a start in a forked process; -N for signal N."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        start(case, model, folder, out)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(model: str, folder: str) -> None:
    devices()
    ep_nnapi.register()
    where = Path(folder)
    cases = json.loads((where / "cases.json").read_text())
    ends = [
        [ended(case, Path(model), where, where / f"{number}.npz") for _ in range(2)]
        for number, case in enumerate(cases)
    ]
    (where / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(*sys.argv[1:])
