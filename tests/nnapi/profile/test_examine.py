"""Trials: which samples with which values a device gets, and what is made of its results."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.profile.examine import SIZES, Examiner, Trial, trials
from ep_nnapi.nnapi.profile.record import record_operation
from ep_nnapi.nnapi.profile.seeds import NOT_SAMPLED
from ep_nnapi.nnapi.profile.values import Values
from ep_nnapi.nnapi.spec import BY_NAME, OPERATIONS
from tests.faulty import FaultyDevice
from tests.runtimes import RUNTIMES

REFERENCE = HostRuntime()
FEW = ("RELU", "CONV_2D", "TOPK_V2", "QUANTIZED_16BIT_LSTM", "BOX_WITH_NMS_LIMIT", "ROI_ALIGN")


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


def examined(device: FaultyDevice, name: str) -> list[object]:
    runtime = HostRuntime([device])
    placed = (runtime, runtime.devices()[0])
    examiner = Examiner(placed, (REFERENCE, REFERENCE.devices()[0]), 10)
    return [examiner.examine(trial, lambda: None) for trial in listed(name)]


def test_what_a_device_makes_of_them() -> None:
    right, wrong = examined(FaultyDevice(), "RELU"), examined(FaultyDevice(wrong=2), "RELU")
    assert all(f.failure is None and not f.error.wrong for f in right)
    assert all(f.error.wrong for f in wrong)
    assert max(f.error.error for f in wrong) < 256
    timed = [f.seconds for f in right if f.seconds is not None]
    assert len(timed) == 4  # one for each type
    assert all(min(t) > 0 for t in timed)
    assert not any(f.seconds for f in wrong)


def test_a_device_that_fails() -> None:
    found = examined(FaultyDevice(fails_on=frozenset({"RELU"})), "RELU")
    assert all(f.error is None for f in found)
    assert {f.failure.detail for f in found} == {"no RELU today"}


def test_what_the_reference_does_not_compute_is_not_tried() -> None:
    begun: list[Trial] = []
    placed = (REFERENCE, REFERENCE.devices()[0])
    examiner = Examiner(placed, placed, 10)
    for trial in listed("SOFTMAX"):
        found = examiner.examine(trial, lambda trial=trial: begun.append(trial))
        beta = next(o for p, o in trial.use.named_inputs if p.name == "beta")
        tried = not isinstance(beta.array, np.ndarray) or beta.array > 0
        assert (found is not None) == tried, trial
        assert (trial in begun) == tried


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
    examiner = Examiner((runtime, device), (REFERENCE, REFERENCE.devices()[0]), 60)
    found = [(t, examiner.examine(t, lambda: None)) for t in chosen]
    assert not [(t, f) for t, f in found if f is not None and (not f.error or f.error.wrong)]
    tried = {t.types for t, f in found if f is not None}
    assert tried == {t.types for t in chosen}
