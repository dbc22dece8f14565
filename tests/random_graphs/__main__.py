"""Draws and compares graphs: `python -m tests.random_graphs --count 5000 --seed 0`.

A seed is one graph: `--seed 17 --count 1 --show` prints the one that was drawn for 17.
"""

import argparse
import random
import sys

import onnx

from tests.random_graphs import suite
from tests.random_graphs.trial import draw
from tests.random_graphs.values import Values


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000, help="graphs")
    parser.add_argument("--seed", type=int, default=None, help="the first one (default: drawn)")
    parser.add_argument("--values", type=Values, choices=list(Values), default=Values.ORDINARY)
    parser.add_argument("--show", action="store_true", help="print the graphs, run nothing")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    seeds = range(first, first + given.count)
    if given.show:
        for subject in map(draw, seeds):
            text = onnx.printer.to_text(subject.model)
            sys.stdout.write(f"{text}\n{dict(subject.options)}\n")
        return 0
    tally = suite.run(seeds, given.values)
    sys.stdout.writelines(f"{line}\n" for line in tally.lines())
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
