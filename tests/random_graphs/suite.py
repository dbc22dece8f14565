"""Many random graphs, each compared in a worker process, and what came of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.onnx_backend.workers import Died, spread
from tests.random_graphs.trial import Ended, Result, attempt
from tests.random_graphs.values import Values


@dataclass
class Tally:
    """Results by how they ended; the failures in full; the operators delegated anywhere."""

    seeds: range
    ended: Counter[Ended] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)
    causes: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.ended[result.ended] += 1
        self.operators |= {op_type for _, op_type in result.operators}
        self.causes.update(result.causes)
        if result.ended in (Ended.DIFFERS, Ended.CRASHED):
            self.failures.append(result)

    def lines(self) -> Iterator[str]:
        """The tally as a report; each failure with the seed that repeats it."""
        for r in sorted(self.failures, key=lambda r: r.seed):
            yield f"seed {r.seed} {r.ended}: {r.detail}"
        yield f"seeds {self.seeds.start} to {self.seeds.stop - 1}"
        for ended, count in self.ended.items():
            yield f"{count} {ended}"
        for cause, count in self.causes.most_common():
            yield f"{count} times: {cause}"
        yield f"{len(self.operators)} operator types delegated"


def run(seeds: range, values: Values = Values.ORDINARY, **options: object) -> Tally:
    """The graphs of all seeds, fed with such values; a crash is one failure."""
    tally = Tally(seeds)
    for index, result in spread(partial(attempt, values=values, **options), seeds):
        if isinstance(result, Died):
            tally.add(Result(seeds[index], Ended.CRASHED, result.how))
        else:
            tally.add(result)
    return tally
