"""EPContext nodes of this provider among others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ep_nnapi.epcontext.names import EP_SOURCE, is_own
from ep_nnapi.ort.names import EP_NAME
from tests.onnx_graph import graph_of
from tests.provider.test_planner import CHAIN

OWN = replace(
    graph_of(CHAIN).nodes[0],
    op_type="EPContext",
    domain="com.microsoft",
    attributes={"source": EP_SOURCE},
)


def test_the_source_is_the_providers_name() -> None:
    assert EP_SOURCE == EP_NAME
    assert is_own(OWN)


@pytest.mark.parametrize(
    "change",
    [
        {"op_type": "Relu"},
        {"domain": ""},
        {"attributes": {"source": "QNNExecutionProvider"}},
        {"attributes": {}},
    ],
)
def test_nodes_of_others(change: dict[str, object]) -> None:
    assert not is_own(replace(OWN, **change))
