"""A session with a device's profile takes the nodes that a session on the device takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi import ModelError, OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.profile.examples import path_of
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.record import record_all
from ep_nnapi.nnapi.profile.sample_devices import RULES, SampleDevice, everything
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.profile.use import OperationUse
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.options.table import HOST
from ep_nnapi.provider import devices as runtimes
from ep_nnapi.sessions.cpu import session_of
from models.zoo import MODELS
from tests.random_graphs.trial import draw

DIGITS = "models/digits.onnx"


def constant_weights(use: OperationUse) -> bool:
    """Supports weights that are constants."""
    weights = (o for p, o in use.named_inputs if p.name in ("filter", "weights", "bias", "alpha"))
    return all(isinstance(o.value, Data) for o in weights)


def matrices(use: OperationUse) -> bool:
    """Supports operations on up to two dimensions."""
    return all(len(o.dimensions) <= 2 for o in (*use.inputs, *use.outputs))


def nchw(use: OperationUse) -> bool:
    """Supports convolutions and pools in NCHW only."""
    layouts = [o for p, o in use.named_inputs if p.name == "layout"]
    return all(bool(o.array) for o in layouts)


def no_fusion(use: OperationUse) -> bool:
    """Supports operations without a fused activation, not relaxed."""
    activations = [o for p, o in use.named_inputs if p.name == "activation"]
    return not use.relaxed and all(int(o.array) == 0 for o in activations)


OWN_RULES = {
    "constant-weights": constant_weights,
    "matrices": matrices,
    "nchw": nchw,
    "no-fusion": no_fusion,
}


def device_of(name: str) -> SampleDevice:
    if name.startswith("level-"):
        return SampleDevice(name, everything, feature_level=int(name[-1]))
    return SampleDevice(name, (RULES | OWN_RULES)[name])


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Sessions on the device itself, beside nnapi-reference."""
    device = device_of(name)
    runtime = HostRuntime([device, ReferenceDevice()], device.feature_level)
    with patch.dict(runtimes.RUNTIMES, {HOST: lambda: runtime}):
        yield


def compare(name: str, profile: Path, content: str | bytes, **options: object) -> int:
    """Requires equal clusters on the device and with its profile; returns the nodes taken."""
    try:
        with on_device(name):
            there = ep_nnapi.check(content, **options).to_json()
    except OptionError:  # a level that the device does not have
        with pytest.raises(OptionError):
            ep_nnapi.check(content, device_profile=profile, **options)
        return 0
    here = ep_nnapi.check(content, device_profile=profile, **options).to_json()
    for rejection in here["rejections"]:
        assert "not in its profile" not in rejection["detail"], rejection
        rejection["detail"] = rejection["detail"].removesuffix(" (profile)")
    assert here == there
    return int(here["taken"])


NAMES = [*(f"level-{n}" for n in (1, 2, 3, 8)), *RULES]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["kws_dscnn", "espcn"])
def test_zoo_models_on_example_devices(name: str, model: str):
    compare(name, path_of(name), MODELS[model]().SerializeToString())


def test_refusals_name_the_device_and_the_profile():
    report = ep_nnapi.check(DIGITS, device_profile=path_of("sample-minimal"))
    details = {r.detail for r in report.rejections}
    assert details == {"sample-minimal declines FULLY_CONNECTED, MAX_POOL_2D, RESHAPE (profile)"}
    assert {c.device for c in report.clusters} == {"sample-minimal"}


def test_a_session_computes_on_the_host():
    given = {"image": np.load("models/digits/samples.npz")["images"][:1]}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    profile = path_of("sample-minimal")
    ep_nnapi.append_execution_provider(options, device_profile=profile)
    (got,) = ort.InferenceSession(DIGITS, options).run(None, given)
    (want,) = session_of(DIGITS).run(None, given)
    # sums of up to 400 float32 products in another order
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu-7"}, "device 'gpu-7' is unknown; there are level-3, nnapi-reference"),
        ({"feature_level": 4}, "feature_level is 4, but the runtime offers 3"),
        ({"runtime": DIGITS}, "device_profile is for the host runtime, not for"),
    ],
)
def test_options_that_do_not_fit_the_profile(options: dict[str, object], message: str):
    with pytest.raises(OptionError, match=message):
        ep_nnapi.check(DIGITS, device_profile=path_of("level-3"), **options)


def test_a_runtime_of_the_caller_may_be_named_too():
    report = ep_nnapi.check(DIGITS, device_profile=path_of("level-3"), runtime="host")
    assert report.feature_level == 3
    chosen = {"device": "nnapi-reference", "device_profile": path_of("sample-minimal")}
    assert ep_nnapi.check(DIGITS, **chosen).taken == 8


SEED = int(os.environ.get("EP_NNAPI_SEED", "500000"))


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example profiles, and those of the devices of this file."""
    folder = tmp_path_factory.mktemp("profiles")
    found = {n: HostRuntime([SampleDevice(n, rule)]) for n, rule in OWN_RULES.items()}
    for profile in record_all([(r, r.devices()[0]) for r in found.values()]):
        write(profile, folder / f"{profile.device.name}.json")
    examples = {n: path_of(n) for n in (*(f"level-{i}" for i in range(1, 9)), *RULES)}
    return examples | {n: folder / f"{n}.json" for n in OWN_RULES}


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_zoo_on_every_device(model: str, profiles: dict[str, Path]):
    content = MODELS[model]().SerializeToString()
    for name, path in profiles.items():
        compare(name, path, content)


@pytest.mark.long
def test_500_graphs_on_every_device(profiles: dict[str, Path]):
    print("seed", SEED)  # noqa: T201 (to repeat a failure)
    names, taken = list(profiles), 0
    for seed in range(SEED, SEED + 500):
        subject = draw(seed)
        if not subject.model.graph.output:
            continue
        for name in (names[seed % len(names)], names[(seed * 7 + 3) % len(names)]):
            content = subject.model.SerializeToString()
            try:
                taken += compare(name, profiles[name], content, **subject.options)
            except ModelError:  # not for ONNX Runtime
                break
    assert taken > 500


def test_drawn_graphs_on_example_devices():
    for seed in range(SEED, SEED + 12):
        subject = draw(seed)
        options = {k: v for k, v in subject.options.items() if k != "feature_level"}
        if subject.model.graph.output:
            for name in ("level-8", "sample-float-engine"):
                compare(name, path_of(name), subject.model.SerializeToString(), **options)


@pytest.mark.parametrize("name", ["sample-minimal"])
def test_the_operations_of_a_model_are_recorded_exactly(name: str, tmp_path: Path):
    """Without any sample, the recorded operations of the model decide."""
    path = tmp_path / "device.json"
    few = patch("ep_nnapi.nnapi.profile.record.seeds", lambda: seeds_of(BY_NAME["RANK"]))
    with on_device(name), few:
        profile = ep_nnapi.record_profile(path, [DIGITS])
    assert set(profile.exact.values()) == {True, False}
    assert compare(name, path, DIGITS) > 0
    assert compare(name, path, DIGITS, flags="USE_FP16") > 0
