"""Models of one operation, of every type and rank: the C API computes what the runtime does.

The samples are those with which devices are examined, and their variations.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.library import LibraryRuntime, load
from ep_nnapi.nnapi.profile.examine import Examiner, Trial
from ep_nnapi.nnapi.profile.sample import Sample, use_of
from ep_nnapi.nnapi.profile.seeds import NOT_SAMPLED, seeds_of
from ep_nnapi.nnapi.profile.variations import variations
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device, Runtime
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import OPERATIONS

SAMPLED = [spec for spec in OPERATIONS if spec.name not in NOT_SAMPLED]


def reference(runtime: Runtime) -> tuple[Runtime, Device]:
    return runtime, next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)


def unlike(samples: Iterable[Sample], *, all_computed: bool = True) -> list[str]:
    """The samples whose results have other bits through the C API, or that are not computed."""
    library = LibraryRuntime(load(libneuralnetworks_path()))
    examiner, found = Examiner(reference(library), reference(HostRuntime()), 60), []
    for sample in samples:
        made = use_of(sample)
        known = made and examiner.known(Trial(made[0], sample))
        if examiner.examine([known])[0].error.error if known else made and all_computed:
            found.append(str(made))
    return found


def is_whole(sample: Sample) -> bool:
    """True if it is legal, and all sizes of its inputs are known."""
    made = use_of(sample)
    return made is not None and all(o.known or o.value for o in made[0].inputs)


def drawn(rng: random.Random, spec: OperationSpec) -> Iterator[Sample]:
    """Yield a sample of an operation, and one of its variations."""
    samples = [*seeds_of(spec)]
    base = next(filter(is_whole, rng.sample(samples, len(samples))))
    every = [*islice(variations(base), 100)]
    yield base
    yield from islice(filter(is_whole, rng.sample(every, len(every))), 1)


def test_random_operations_compute() -> None:
    """Of the variations not all may be: some change what NNAPI prescribes."""
    rng = random.Random(0)
    samples = (sample for spec in rng.sample(SAMPLED, 40) for sample in drawn(rng, spec))
    assert unlike(samples, all_computed=False) == []


@pytest.mark.long
def test_every_operation_computes_on_every_type_and_rank() -> None:
    assert unlike(sample for spec in SAMPLED for sample in seeds_of(spec)) == []
