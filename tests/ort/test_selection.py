"""ONNX Runtime's selection policies, and the selection by name before and after them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi.ort.session as nnapi
from ep_nnapi import context_library_path
from tests.ort.conftest import NAME, Install, settings
from tests.ort.fake import FakeProvider
from tests.ort.models import abs_add

WARNING = 2  # a severity of ONNX Runtime's log
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
POLICIES = [
    *("DEFAULT", "PREFER_CPU", "PREFER_NPU", "PREFER_GPU"),
    *("MAX_PERFORMANCE", "MAX_EFFICIENCY", "MIN_OVERALL_POWER"),
]


def by_policy(policy: str) -> onnxruntime.SessionOptions:
    options = settings()
    options.set_provider_selection_policy(
        getattr(onnxruntime.OrtExecutionProviderDevicePolicy, policy)
    )
    return options


@pytest.fixture
def no_other_plugin() -> None:
    """A policy chooses among all registered plugins; another test may have left one."""
    registered = {device.ep_name for device in onnxruntime.get_ep_devices()}
    for name in registered - {NAME, "CPUExecutionProvider"}:
        onnxruntime.unregister_execution_provider_library(name)


@pytest.mark.usefixtures("no_other_plugin")
@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_takes_nodes_from_the_cpu_provider(install: Install, capfd, policy: str):
    """ONNX Runtime chooses any CPU device before its own: the plugin takes no node then."""
    fake = install("Abs", "Add", together=True)
    options = by_policy(policy)
    options.log_severity_level = WARNING
    session = onnxruntime.InferenceSession(abs_add(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.abs(X) + X)
    assert fake.graphs == fake.runners == []
    assert capfd.readouterr().err.count("it leaves all nodes to that") == 1


@pytest.fixture
def another_plugin(no_other_plugin: None) -> Iterator[str]:
    """The name of the plugin for prepared models, which policies prefer to this one."""
    name = "NnapiContextExecutionProvider"
    onnxruntime.register_execution_provider_library(name, context_library_path())
    yield name
    onnxruntime.unregister_execution_provider_library(name)


def assert_selected(fake: FakeProvider, way: str) -> None:
    """The plugin gets its nodes when it is named in this way, without options."""
    options, providers = settings(), None
    if way == "providers":
        providers = [NAME, "CPUExecutionProvider"]
    elif way == "append":
        nnapi.append_execution_provider(options)
    else:
        devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
        options.add_provider_for_devices(devices, {})
    onnxruntime.InferenceSession(abs_add(), options, providers=providers)
    assert len(fake.runners) == 1


WAYS = ["providers", "devices", "append"]


@pytest.mark.usefixtures("no_other_plugin")
@pytest.mark.parametrize("way", WAYS)
def test_after_a_policy_the_plugin_can_be_selected(install: Install, way: str):
    fake = install("Abs", "Add", together=True)
    onnxruntime.InferenceSession(abs_add(), by_policy("DEFAULT"))
    assert_selected(fake, way)


@pytest.mark.parametrize("way", WAYS)
def test_after_a_policy_that_chose_another_plugin_too(install, another_plugin, way):
    """The policy compares this plugin with the other one, and creates only the other one."""
    fake = install("Abs", "Add", together=True)
    session = onnxruntime.InferenceSession(abs_add(), by_policy("DEFAULT"))
    assert session.get_providers()[0] == another_plugin
    assert_selected(fake, way)


def test_the_question_for_the_policy_leaves_no_files(install: Install, tmp_path: Path):
    """It copies the options of the session, which profiles and writes its optimized model."""
    fake = install("Abs", "Add", together=True)
    for options in (by_policy("DEFAULT"), by_policy("PREFER_CPU")):
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "profile")
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        session = onnxruntime.InferenceSession(abs_add(), options)
        (profile,) = tmp_path.glob("profile*")
        assert Path(session.end_profiling()) == profile
        optimized = onnx.load(tmp_path / "optimized.onnx")
        assert [n.op_type for n in optimized.graph.node] == ["Abs", "Add"]
        for file in tmp_path.iterdir():
            file.unlink()
    assert fake.runners == []
