"""Runs ONNX's backend node tests: `python -m tests.onnx_backend --levels 8 4 3 1 --only conv`."""

import argparse
import sys

from tests.onnx_backend import trial


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--levels", type=int, nargs="+", default=[8], help="feature levels")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    chosen = [c for c in trial.load() if given.only in c.name]
    sys.stderr.write(f"{len(chosen)} cases at feature level {given.levels}\n")
    tally = trial.run(chosen, given.levels)
    sys.stdout.writelines(f"{line}\n" for line in tally.lines())
    few = not given.only and len(tally.operators) < trial.DELEGATED_AT_LEAST
    return int(bool(tally.failures) or few)


if __name__ == "__main__":
    sys.exit(main())
