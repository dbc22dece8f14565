"""The factory's devices, and the provider that it creates for a session."""

import onnxruntime
import pytest

import ep_nnapi.ort.session as nnapi
from ep_nnapi.ort.factory import Factory, NoNodesProvider
from tests.ort.conftest import NAME
from tests.ort.fake import FakeProvider

OPTION = {"ep.nnapipluginexecutionprovider.flags": "1", "session.load_model_format": "ORT"}


def test_the_device_is_the_processor():
    nnapi.register()
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    assert [d.device.type.name for d in found] == ["CPU"]


def test_a_session_gets_its_provider_options():
    fake = FakeProvider(["Abs"])
    Factory(fake.open).create_ep([], OPTION, False, 0)
    assert fake.entries == {"flags": "1"}


def test_a_policy_gets_a_provider_without_nodes_unless_options_name_this_one():
    fake = FakeProvider(["Abs"])
    fake.entries = {"never": "opened"}
    Factory(fake.open).create_ep([], {}, True, 0)
    assert fake.entries == {"never": "opened"}
    Factory(fake.open).create_ep([], OPTION, True, 0)
    assert fake.entries == {"flags": "1"}


def test_symbolic_shapes_stay_nodes_in_a_model_that_is_compiled():
    fake = FakeProvider(["Abs"])
    Factory(fake.open).create_ep([], {"ep.context_enable": "1"}, False, 0)
    assert fake.entries == {"dynamic_shapes": "off"}
    assert fake.for_files


@pytest.mark.parametrize(
    ("entries", "options"),
    [
        ({"session.intra_op.allow_spinning": "0"}, {"spinning": "never"}),
        ({"session.force_spinning_stop": "1"}, {"spinning": "runs"}),
        ({"session.intra_op.allow_spinning": "1"}, {}),
        (
            {
                "session.intra_op.allow_spinning": "0",
                "ep.nnapipluginexecutionprovider.spinning": "auto",
            },
            {"spinning": "auto"},
        ),
    ],
    ids=["never", "stops after a run", "as by default", "an option decides"],
)
def test_threads_spin_no_more_than_the_sessions(entries: dict[str, str], options: dict[str, str]):
    fake = FakeProvider(["Abs"])
    Factory(fake.open).create_ep([], entries, False, 0)
    assert fake.entries == options


def test_without_nodes_the_reason_is_told():
    provider = NoNodesProvider()
    assert (list(provider.contexts([], None)), provider.compatibility_info) == ([], "")
    assert "leaves all nodes to that" in provider.notice().text
