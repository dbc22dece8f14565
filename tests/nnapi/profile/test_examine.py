"""Trials: which samples with which values a device gets, and what is made of its results."""

from dataclasses import replace

import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.profile.examine import SIZES, Examiner, Trial, TrialResult, batches, trials
from ep_nnapi.nnapi.profile.record import record_operation
from ep_nnapi.nnapi.profile.seeds import NOT_SAMPLED
from ep_nnapi.nnapi.profile.values import Values
from ep_nnapi.nnapi.runtime import Runtime
from ep_nnapi.nnapi.spec import BY_NAME, OPERATIONS
from tests.faulty import FaultyDevice
from tests.runtimes import RUNTIMES

REFERENCE = HostRuntime()
FEW = (
    *("RELU", "FULLY_CONNECTED", "TOPK_V2", "QUANTIZED_16BIT_LSTM", "BOX_WITH_NMS_LIMIT"),
    "ROI_ALIGN",
)


def listed(name: str, level: int = 8) -> list[Trial]:
    runtime = HostRuntime(feature_level=level)
    _, supported = record_operation(runtime, runtime.devices()[0], BY_NAME[name])
    return trials(BY_NAME[name], supported, level)


def test_each_group_is_tried_and_each_trait() -> None:
    found = listed("CONV_2D")
    types = {t.types for t in found if "TENSOR_FLOAT32*3" in t.types}
    for form in types:
        traits = frozenset().union(*(t.traits for t in found if t.types == form))
        assert {f"activation={n}" for n in range(4)} <= traits
        assert {"layout=True", "layout=False"} <= traits or "BOOL" not in form
        assert {"relaxed=yes", "filter=variable", "filter=constant"} <= traits
        assert {t.size for t in found if t.types == form} == {4, *SIZES}
    ranks = {r for t in listed("RELU") for r in t.traits if r.startswith("ranks=")}
    assert ranks == {f"ranks={n} > {n}" for n in range(1, 5)}


def test_edges_are_tried_where_they_are_defined() -> None:
    assert {t.values for t in listed("RELU")} == set(Values)
    halves = ("TENSOR_FLOAT32", "TENSOR_FLOAT16")
    floats = [t for t in listed("EXP") if t.types.startswith(halves)]
    assert {t.values for t in floats} == {Values.ORDINARY}


def test_a_level_has_the_trials_of_its_own() -> None:
    codes = {o.type for t in listed("RELU", 1) for o in t.use.inputs}
    assert codes == {OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_QUANT8_ASYMM}
    assert not listed("EXP", 2)


def examiner(runtime: Runtime, timeout: float = 10) -> Examiner:
    return Examiner((runtime, runtime.devices()[0]), (REFERENCE, REFERENCE.devices()[0]), timeout)


def examined(device: FaultyDevice, name: str) -> list[TrialResult]:
    """Each trial alone."""
    own = examiner(HostRuntime([device]))
    return [own.examine([own.known(trial)])[0] for trial in listed(name)]


def test_what_a_device_makes_of_them() -> None:
    right, wrong = examined(FaultyDevice(), "RELU"), examined(FaultyDevice(wrong=2), "RELU")
    assert not any(f.error.wrong for f in right)
    assert all(f.error.wrong for f in wrong)
    assert max(f.error.error for f in wrong) < 256
    timed = [f.seconds for f in right if f.seconds is not None]
    assert len(timed) == 4  # one for each type
    assert all(min(t) > 0 for t in timed)
    assert not any(f.seconds for f in wrong)


def test_a_device_that_fails() -> None:
    with pytest.raises(RuntimeFailure, match="no RELU today"):
        examined(FaultyDevice(fails_on=frozenset({"RELU"})), "RELU")


def test_what_the_reference_does_not_compute_is_not_tried() -> None:
    own = examiner(REFERENCE)
    for trial in listed("SOFTMAX"):
        beta = next(o for p, o in trial.use.named_inputs if p.name == "beta")
        tried = not isinstance(beta.value, Data) or beta.array > 0
        assert (own.known(trial) is not None) == tried, trial


def test_trials_are_operations_of_one_model_unless_they_are_timed_or_shall_be_alone() -> None:
    all_of_them = list(enumerate(listed("RELU")))
    found = list(batches(all_of_them, 5))
    assert [pair for batch in found for pair in batch] == all_of_them
    assert [len(batch) for batch in found[:6]] == [1, 1, 1, 1, 1, 16]
    assert all(len(batch) == 1 for batch in found if any(trial.timed for _, trial in batch))
    assert all(len({trial.use.relaxed for _, trial in batch}) == 1 for batch in found)
    own = examiner(HostRuntime([FaultyDevice(wrong=2)]))
    together = own.examine([own.known(trial) for _, trial in found[5]])
    alone = [own.examine([own.known(trial)])[0] for _, trial in found[5]]
    assert together == alone


@pytest.mark.parametrize(
    "name",
    [
        *FEW,
        *(
            pytest.param(o.name, marks=pytest.mark.long)
            for o in OPERATIONS
            if o.name not in (*NOT_SAMPLED, *FEW)
        ),
    ],
)
def test_this_projects_own_library_is_right(name: str) -> None:
    """Its C API, with the reference behind it; in some trial of each list of types."""
    runtime = RUNTIMES["library"]()
    device = next(d for d in runtime.devices() if d.name == "nnapi-reference")
    _, supported = record_operation(runtime, device, BY_NAME[name])
    chosen = trials(BY_NAME[name], supported, 8)
    own = replace(examiner(REFERENCE, 60), device=(runtime, device))
    tried = set()
    for batch in batches(enumerate(chosen), 0):
        known = [known for _, trial in batch if (known := own.known(trial)) is not None]
        tried |= {k.trial.types for k in known}
        found = own.examine(known) if known else []
        wrong = [(k.trial, f) for k, f in zip(known, found, strict=True) if f.error.wrong]
        assert not wrong
    assert tried == {t.types for t in chosen}
