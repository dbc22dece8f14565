"""Sound graphs fed NaN, infinities, denormals and huge numbers: results are the CPU provider's.

But for the differences that `diagnostics.output_traits` lists.
"""

from __future__ import annotations

from tests.fuzz.trial import Ended, Result, alone_of, limit_memory
from tests.random_graphs import trial
from tests.random_graphs.trial import draw
from tests.random_graphs.values import Values

_ENDED = {
    trial.Ended.SAME: Ended.COMPUTED,
    trial.Ended.KNOWN: Ended.COMPUTED,
    trial.Ended.CPU_FAILS: Ended.REFUSED,
    trial.Ended.DIFFERS: Ended.DIFFERS,
}


def values_of(seed: int) -> Values:
    """Every other seed is fed NaN, infinities and denormals, the others huge numbers."""
    return (Values.SPECIAL, Values.HUGE)[seed % 2]


def attempt(seed: int) -> Result:
    """The graph of the seed computes what it does on the CPU provider."""
    limit_memory()
    found = trial.attempt(seed, values_of(seed))
    return Result(_ENDED[found.ended], found.detail)


def alone(seed: int) -> Result:
    """The same without ours."""
    limit_memory()
    subject = draw(seed, values_of(seed))
    return alone_of(subject.model.SerializeToString(), subject.feeds)
