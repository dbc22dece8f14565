"""Recording: the answers for what was not asked follow from those for the samples."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure, SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.profile.device import (
    Answer,
    Conditions,
    ExaminedRuntime,
    Profile,
    ProfiledRuntime,
)
from ep_nnapi.nnapi.profile.file import EXAMPLES, read, to_text
from ep_nnapi.nnapi.profile.flaws import Defect, Flaw
from ep_nnapi.nnapi.profile.form import OperationUse, form_of
from ep_nnapi.nnapi.profile.record import RecordingRuntime, record_all, record_operation
from ep_nnapi.nnapi.profile.sample import model_of, use_of
from ep_nnapi.nnapi.profile.seeds import seeds, seeds_of
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from ep_nnapi.nnapi.spec import BY_NAME
from tests.nnapi.profile.examples import (
    RULES,
    Rule,
    SampleDevice,
    devices,
    path_of,
    profiles,
)
from tests.nnapi.profile.make import F32, I32, Q8, add, model, tensor, use

IMAGE = tensor(1, 4, 4, 2)


def recorded(rule: Rule, *names: str, level: int = 8) -> Profile:
    runtime = HostRuntime([SampleDevice("d", rule)], level)
    samples = (s for name in names for s in seeds_of(BY_NAME[name]))
    few = (s for s in samples if len({len(o.dimensions) for _, o in s.tensors()}) == 1)
    (profile,) = record_all([(runtime, runtime.devices()[0])], few)
    return profile


def answers(profile: Profile, *uses: OperationUse) -> list[Answer]:
    return [profile.answer(u, form_of(u)) for u in uses]


YES, NO, UNKNOWN = Answer.SUPPORTED, Answer.DECLINED, Answer.NOT_RECORDED


def test_types():
    profile = recorded(lambda u: u.inputs[0].type is Q8, "RELU")
    quantized = tensor(3, 2, code=Q8, zero=77)
    assert answers(profile, use("RELU", [quantized], quantized), use("RELU", [IMAGE], IMAGE)) == [
        YES,
        NO,
    ]


def test_ranks():
    profile = recorded(lambda u: len(u.inputs[0].dimensions) == 2, "RELU")
    by_rank = [use("RELU", [t], t) for t in (tensor(5), tensor(5, 5), tensor(5, 5, 5))]
    assert answers(profile, *by_rank) == [NO, YES, NO]


def test_scalars_and_what_was_not_probed():
    profile = recorded(lambda u: int(u.inputs[2].array) in (0, 3), "ADD")
    found = answers(profile, *map(add, range(4)), use("MUL", [IMAGE, IMAGE, 0], IMAGE))
    assert found == [YES, NO, NO, YES, UNKNOWN]


def test_a_device_that_declines_the_first_sample():
    """It wants a fused activation, which the first sample has not."""
    profile = recorded(lambda u: int(u.inputs[2].array) == 1 and not u.relaxed, "ADD")
    assert answers(profile, add(0), add(1), add(1, relaxed=True)) == [NO, YES, NO]


def test_constants():
    def rule(asked: OperationUse) -> bool:
        return isinstance(asked.inputs[1].value, Data)

    constant = replace(IMAGE, value=Data.of(np.zeros((1, 4, 4, 2), np.float32)))
    both = [use("ADD", [IMAGE, second, 2], IMAGE) for second in (constant, IMAGE)]
    assert answers(recorded(rule, "ADD"), *both) == [YES, NO]


@pytest.mark.parametrize(("level", "answer"), [(2, UNKNOWN), (3, YES)])
def test_samples_above_the_level_of_the_runtime_are_not_asked(level: int, answer: Answer):
    profile = recorded(lambda u: True, "EXP", level=level)
    assert answers(profile, use("EXP", [IMAGE], IMAGE)) == [answer]


class _OfAndroid(HostRuntime):
    """Takes no model without inputs."""

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        if not model.inputs:
            raise RuntimeFailure("ANeuralNetworksModel_finish", "ANEURALNETWORKS_BAD_DATA")
        return super().supported(model, device)


def test_operations_of_constants_alone_are_asked_about_beside_another_one():
    runtime = _OfAndroid([SampleDevice("d", lambda u: u.outputs[0].type is F32)])
    samples = seeds_of(BY_NAME["FILL"])
    (profile,) = record_all([(runtime, runtime.devices()[0])], samples)
    dims = tensor(2, code=I32, value=3)
    floats = use("FILL", [dims, -1.0], tensor(3, 3))
    integers = use("FILL", [dims, 1], tensor(3, 3, code=I32))
    assert answers(profile, floats, integers) == [YES, NO]


@pytest.mark.parametrize("changes", [{"zero_point": 7}, {"scale": 1.0}], ids=str)
def test_only_one_concatenated_operand_has_the_quantization_of_the_output(changes: dict):
    one = tensor(1, 4, code=Q8, zero=128)
    whole = replace(one, dimensions=(1, 8))
    others = (one, replace(one, **changes))
    asked = [use("CONCATENATION", [one, other, 1], whole) for other in others]
    assert answers(recorded(lambda u: True, "CONCATENATION"), *asked) == [YES, YES]
    alike = recorded(lambda u: "same_quantization=no" not in form_of(u).traits, "CONCATENATION")
    assert answers(alike, *asked) == [YES, NO]


class _Picky(HostRuntime):
    """Answers no query with an operation of one kind in it."""

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        if any(o.spec.name == "EXP" and o.inputs for o in model.operations):
            raise RuntimeFailure("getSupportedOperations", "ANEURALNETWORKS_OP_FAILED")
        return super().supported(model, device)


def test_a_query_that_fails_is_divided():
    runtime = _Picky([SampleDevice("d", lambda u: True)])
    samples = [*seeds_of(BY_NAME["EXP"])]
    (profile,) = record_all([(runtime, runtime.devices()[0])], samples)
    assert set(profile.groups.values()) == {None}


def test_operations_of_models_are_recorded_by_their_digests():
    runtime = RecordingRuntime(HostRuntime([SampleDevice("d", lambda u: u.spec.name == "ADD")]))
    uses = [add(), use("RELU", [IMAGE], IMAGE)]
    device = runtime.devices()[0]
    assert runtime.supported(model_of(uses), device) == (True, False)
    assert runtime.exact == {uses[0].digest: True, uses[1].digest: False}
    assert runtime.feature_level == 8
    assert runtime.share(model_of(uses)).operations == model_of(uses).operations
    assert runtime.compile(model_of(uses), device) is not None


# Answers that follow from recorded samples


def traits(text: str) -> frozenset[str]:
    return frozenset(text.split())


BASE = traits("stride=1 filter=2 layout=no")
ASKED = {
    BASE: True,
    traits("stride=2 filter=2 layout=no"): True,
    traits("stride=1 filter=1 layout=no"): True,
    traits("stride=2 filter=1 layout=no"): False,  # both together
    traits("stride=1 filter=2 layout=yes"): False,
    traits("stride=2 filter=2 layout=yes"): False,  # follows from the one before
}


def test_declined_sets_are_the_smallest():
    found = Conditions.of(ASKED, BASE)
    assert found.declined == (traits("layout=yes"), traits("stride=2 filter=1"))
    assert found.supported == traits("stride=1 stride=2 filter=1 filter=2 layout=no")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("stride=1 filter=2 layout=no", Answer.SUPPORTED),
        ("stride=2 filter=2 layout=no", Answer.SUPPORTED),
        ("stride=2 filter=1 layout=no", Answer.DECLINED),
        ("stride=1 filter=1 layout=yes", Answer.DECLINED),
        ("stride=3 filter=2 layout=no", Answer.NOT_RECORDED),
        ("stride=3 filter=2 layout=yes", Answer.DECLINED),
    ],
)
def test_an_operation_is_supported_unless_a_check_fails(asked: str, answer: Answer):
    assert Conditions.of(ASKED, BASE).answer(traits(asked)) is answer


def test_the_exact_answer_comes_first_and_an_unknown_group_has_none():
    device = Device("d", DeviceCode.ACCELERATOR, "1", 8)
    use = add()
    form = form_of(use)
    group = (form.operation, form.types, form.ranks)
    conditions = Conditions(form.traits, ())

    def answer(groups, exact) -> Answer:
        return Profile(device, 8, groups, exact).answer(use, form)

    assert answer({group: conditions}, {}) is Answer.SUPPORTED
    assert answer({group: None}, {}) is Answer.DECLINED
    assert answer({}, {}) is Answer.NOT_RECORDED
    assert answer({group: conditions}, {use.digest: False}) is Answer.DECLINED
    assert answer({group: None}, {use.digest: True}) is Answer.SUPPORTED


# The runtime of a recorded device

PHONE = Device("phone", DeviceCode.GPU, "7.1", 3)


def runtime(device: Device = PHONE) -> ProfiledRuntime:
    """A device that supports ADD of images without an activation."""
    form = form_of(add())
    group = (form.operation, form.types, form.ranks)
    declined = (frozenset({"activation=1"}),)
    conditions = Conditions(form.traits | {"activation=2"}, declined)
    return ProfiledRuntime(Profile(device, 4, {group: conditions}, {}), HostRuntime())


def test_it_reports_the_recorded_device():
    found = runtime()
    assert found.feature_level == 4
    expected = [("phone", 3), (REFERENCE_DEVICE, 4)]
    assert [(d.name, d.feature_level) for d in found.devices()] == expected
    assert found.devices()[0] is PHONE


def test_a_recorded_reference_device_is_there_once():
    recorded = Device(REFERENCE_DEVICE, DeviceCode.CPU, "1", 3)
    assert runtime(recorded).devices() == (recorded,)


def test_it_answers_from_the_profile_and_says_why():
    found = runtime()
    models = [model("ADD", [IMAGE, IMAGE, n], IMAGE) for n in range(4)]
    assert [found.supported(m, PHONE) for m in models] == [(True,), (False,), (True,), (False,)]
    assert found.explanation(models[1], [0]) == "profile"
    assert found.explanation(models[3], [0]) == "not in its profile; record it with this model"
    reference = found.devices()[1]
    assert found.supported(models[1], reference) == (True,)


def test_it_computes_on_the_host():
    found = runtime()
    given = model("ADD", [IMAGE, IMAGE, 0], IMAGE)
    one = np.ones((1, 4, 4, 2), np.float32)
    (result,) = found.compile(found.share(given), PHONE).run([one, one])
    np.testing.assert_array_equal(result, 2 * one)


def test_a_model_above_the_recorded_level_is_illegal():
    above = model("MIRROR_PAD", [IMAGE, tensor(4, 2), 0], IMAGE)
    with pytest.raises(SpecError):
        runtime().supported(above, PHONE)


# The runtime of an examined device

WRONG = Flaw(frozenset({"activation=1"}), Defect.WRONG, 0.5, 1e-5)


def examined(host: HostRuntime) -> ExaminedRuntime:
    """A device that computes ADD of images wrongly with the activation RELU."""
    flaws = {("ADD", form_of(add()).types): (WRONG,)}
    device = host.devices()[0]
    return ExaminedRuntime(Profile(device, 8, {}, {}, flaws=flaws), host)


def test_an_examined_device_is_not_asked_about_what_it_computes_wrongly():
    asked = []
    device = SampleDevice("phone", lambda use: asked.append(use) or use.spec.name != "RELU")
    found = examined(HostRuntime([device]))
    phone = found.devices()[0]
    wrong, right = (model("ADD", [IMAGE, IMAGE, n], IMAGE) for n in (1, 0))
    assert found.supported(wrong, phone) == (False,)
    assert not asked
    assert found.supported(right, phone) == (True,)
    assert found.supported(model("RELU", [IMAGE], IMAGE), phone) == (False,)
    assert len(asked) == 2
    sentence = "phone computes ADD wrongly: an error of 0.5, above 1e-05"
    assert found.verdicts(wrong, [0]) == {0: (Reason.ACCURACY, sentence)}
    assert not found.verdicts(right, [0])
    assert found.explanation(right, [0]) == ""
    assert not found.takes_sizes(phone)


def test_a_profile_with_flaws_supports_none_of_them():
    found = runtime()
    kind = "ADD", form_of(add()).types
    flawed = ProfiledRuntime(replace(found.profile, flaws={kind: (WRONG,)}), HostRuntime())
    models = [model("ADD", [IMAGE, IMAGE, n], IMAGE) for n in range(3)]
    assert [flawed.supported(m, PHONE) for m in models] == [(True,), (False,), (True,)]


def test_what_one_operation_is_recorded_as():
    host = HostRuntime([SampleDevice("phone", RULES["sample-float"])])
    groups, supported = record_operation(host, host.devices()[0], BY_NAME["SOFTMAX"])
    assert {types.split()[0] for _, types, _ in (p.group for p in supported)} == {"TENSOR_FLOAT32"}
    assert {g for g, found in groups.items() if found} == {p.group for p in supported}


# The example profiles in the package are those that are recorded now

FEW = ("CONCATENATION", "MEAN", "SOFTMAX", "RESHAPE", "TRANSPOSE")


def test_each_example_has_a_file_and_each_file_an_example():
    assert {p.name for p in EXAMPLES.iterdir()} == {path_of(d.name).name for d in devices()}


def test_each_typing_of_each_operation_has_a_legal_sample():
    """Without one, profiles would say nothing of it."""
    legal: dict[str, bool] = {}
    for sample in seeds():
        typing = f"{sample.spec.name} {sample.typing}"
        legal[typing] = legal.get(typing, False) or use_of(sample) is not None
    assert [typing for typing, found in legal.items() if not found] == []


def test_examples_are_up_to_date_in_a_few_operations():
    for made in profiles(s for name in FEW for s in seeds_of(BY_NAME[name])):
        stored = read(path_of(made.device.name))
        assert (stored.device, stored.runtime_level) == (made.device, made.runtime_level)
        found = {group: c for group, c in stored.groups.items() if group[0] in FEW}
        assert found == made.groups


@pytest.mark.long
def test_examples_are_up_to_date():
    for made in profiles():
        path = path_of(made.device.name)
        again = "record them again with python -m tests.nnapi.profile.examples"
        assert to_text(read(path)) == to_text(made), f"{path}: {again}"
