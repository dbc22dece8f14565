"""Compares the drawn models of some seeds: `python -m tests.random_graphs.limits FIRST COUNT`.

A process of its own, because each model forks from it: nothing may have started threads before.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.random_graphs.limits.trial import Ended, attempt


def main(first: int, count: int) -> int:
    """Prints what is worse than on the CPU provider, and a tally; 1 when anything is."""
    tally: Counter[Ended] = Counter()
    for seed in range(first, first + count):
        ended, detail = attempt(seed)
        tally[ended] += 1
        if detail:
            sys.stdout.write(f"{detail}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seeds {first} to {first + count - 1}\n")
    for ended in Ended:
        sys.stdout.write(f"{tally[ended]} {ended}\n")
    return 1 if tally[Ended.WORSE] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
