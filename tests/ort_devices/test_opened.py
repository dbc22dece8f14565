"""Devices that are asked by opening models: `test_plugin` has whole ones and those in part."""

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Model
from ep_nnapi.ort_devices.opened import Opened, single_operation, with_known_dims
from tests.ort_devices.test_plugin import tanh_of_elu


def test_one_operation_of_a_model() -> None:
    model = with_known_dims(tanh_of_elu())
    alone = single_operation(model, 1)
    assert [o.spec for o in alone.operations] == [spec.TANH]
    (entering,), (leaving,) = alone.inputs, alone.outputs
    assert alone.operands[entering].dimensions == alone.operands[leaving].dimensions == (2, 3)


def test_what_was_opened_last_is_given_away_once() -> None:
    opened, model, asked = Opened(), tanh_of_elu(), []

    def opens(given: Model) -> str:
        asked.append(given)
        return f"prepared {len(asked)}"

    assert opened.supported(model, ["", ""], opens) == (True, True)
    assert opened.take(model) == "prepared 1"
    assert opened.take(model) is None
    assert opened.supported(model, ["a reason", ""], opens) == (False, True)
    assert len(asked) == 2  # an operation alone, whose model is another one
    assert opened.take(model) is None
