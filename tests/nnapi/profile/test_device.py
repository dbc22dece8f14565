"""The runtime of a recorded device."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.profile.answers import Conditions, Profile
from ep_nnapi.nnapi.profile.device import ProfiledRuntime
from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from tests.nnapi.profile.make import add, model, scalar, tensor

PHONE = Device("phone", DeviceCode.GPU, "7.1", 3)
IMAGE = tensor(1, 4, 4, 2)


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
    assert [(d.name, d.feature_level) for d in found.devices()] == [
        ("phone", 3),
        (REFERENCE_DEVICE, 4),
    ]
    assert found.devices()[0] is PHONE


def test_a_recorded_reference_device_is_there_once():
    recorded = Device(REFERENCE_DEVICE, DeviceCode.CPU, "1", 3)
    assert runtime(recorded).devices() == (recorded,)


def test_it_answers_from_the_profile_and_says_why():
    found = runtime()
    models = [model("ADD", [IMAGE, IMAGE, scalar(n)], IMAGE) for n in range(4)]
    assert [found.supported(m, PHONE) for m in models] == [(True,), (False,), (True,), (False,)]
    assert found.explanation(models[1], [0]) == "profile"
    assert found.explanation(models[3], [0]) == "not in its profile; record it with this model"
    reference = found.devices()[1]
    assert found.supported(models[1], reference) == (True,)


def test_it_computes_on_the_host():
    found = runtime()
    given = model("ADD", [IMAGE, IMAGE, scalar(0)], IMAGE)
    one = np.ones((1, 4, 4, 2), np.float32)
    (result,) = found.compile(found.share(given), PHONE).run([one, one])
    np.testing.assert_array_equal(result, 2 * one)


def test_a_model_above_the_recorded_level_is_illegal():
    above = model("MIRROR_PAD", [IMAGE, tensor(4, 2), scalar(0)], IMAGE)
    with pytest.raises(SpecError):
        runtime().supported(above, PHONE)
