"""Graphs that declare other tensors than their containers have: both providers refuse the same.

ONNX Runtime allocates an output as the graph declares it; what writes it goes by the container.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from ep_nnapi.epcontext.alternatives import Alternative, Linked, plain_crossing
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border
from tests.epcontext.forging import changed, lowered, repacked
from tests.native.forged_models import (
    COMPUTED,
    FEEDS,
    REFUSED,
    SIZES,
    addition,
    change_context,
    crossing,
    difference,
    drawn,
    forged,
    sources,
)
from tests.native.sessions import python_session, session
from tests.provider.test_planner import model

Make = Callable[..., onnxruntime.InferenceSession]
providers = pytest.mark.parametrize("make", [session, python_session])


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


@providers
@pytest.mark.parametrize("case", REFUSED)
def test_other_tensors_are_refused(case: str, make: Make, tmp_path: Path) -> None:
    path = saved(forged(change=REFUSED[case]), tmp_path)
    with pytest.raises(Exception, match=r"prepare the model again|invalid model\. Type Error"):
        make(path)


@providers
@pytest.mark.parametrize("case", COMPUTED)
def test_what_the_graph_leaves_open_computes(case: str, make: Make, tmp_path: Path) -> None:
    for result in make(saved(forged(change=COMPUTED[case]), tmp_path)).run(None, FEEDS):
        assert np.array_equal(result, FEEDS["x"] + 1)


LARGEST = 2**32 - 1


def _far(place: Any) -> None:
    place["first" if "first" in place.dtype.names else "offset"] = LARGEST


CHANGED: dict[str, tuple[int, int | None, str, int, Callable[[Any], None]]] = {
    "an unknown operation": (
        *(2, 1, "operations", 0),
        lambda rows: rows.__setitem__("type", LARGEST >> 1),
    ),
    "a constant without its bytes": (
        *(2, 1, "operands", 2),
        lambda rows: rows.__setitem__("size", 8),
    ),
    "a constant of unknown rank": (
        *(2, 1, "operands", 3),
        lambda rows: rows.__setitem__("type", 3),
    ),
    "a part that reads what nothing makes": (
        *(4, 4, "alternatives", 2),
        lambda rows: rows["inputs"].__setitem__("count", 0),
    ),
    "a tensor of 2^63 elements": (
        *(2, 2, "sizes", -1),
        lambda rows: rows.__setitem__(0, 2**63 - 1),
    ),
    "a level that is none": (
        *(2, None, "alternatives", 1),
        lambda rows: rows.__setitem__("feature_level", 9),
    ),
    "axes that lie outside": (2, 1, "crossings", -1, lambda rows: _far(rows["permutation"])),
    "composites that lie outside": (2, 1, "alternatives", 0, lambda rows: _far(rows["composites"])),
    "an alternative that is none": (2, None, "packed", 0, lambda rows: rows.fill(0)),
    "an alternative that lies outside": (2, None, "alternatives", 1, _far),
}
"""Containers with several alternatives: the source from the last; an alternative of it, None: the
whole; and what changes of a table."""


@pytest.mark.parametrize("prefer", ["nnapi,cpu", "cpu,nnapi"])
@pytest.mark.parametrize("case", CHANGED)
def test_an_alternative_that_is_wrong_is_so_for_both(case: str, prefer: str) -> None:
    """What is wrong with the whole refuses the file, what is with one lets it give way."""
    back, index, table, row, change = CHANGED[case]
    proto = forged(*sources()[-back])

    def alter(data: bytes) -> bytes:
        return changed(data, table, row, change)

    change_context(
        proto.graph, alter if index is None else lambda data: repacked(data, index, alter)
    )
    assert difference(proto.SerializeToString(), FEEDS, prefer) in ("", None)


def test_a_level_below_that_of_its_operations_is_the_runtimes_to_check() -> None:
    """It computes on one of a higher level."""

    def lower(rows: Any) -> None:
        rows["feature_level"] = 1

    proto = forged(lowered(model("Exp x -> y")))
    change_context(proto.graph, lambda data: changed(data, "alternatives", 0, lower))
    assert difference(proto.SerializeToString(), FEEDS, "nnapi") is None


PROGRAMS = {
    "another type": "(float[2,3] x) => (int64[2,3] y) { y = Cast<to=7>(x) }",
    "a smaller type": "(float[2,3] x) => (bool[2,3] y) { y = Cast<to=9>(x) }",
    "another shape": "(float[2,3] x) => (float[a,b] y) { y = Transpose<perm=[1,0]>(x) }",
    "more elements": "(float[2,3] x) => (float[a,b] y) { y = Concat<axis=0>(x, x) }",
    "a sequence": "(float[2,3] x) => (seq(float[2,3]) y) { y = SequenceConstruct(x) }",
    "of other sizes": "(float[2,4] x) => (float[2,4] y) { y = Relu(x) }",
    "of another type": "(int32[2,3] x) => (int32[2,3] y) { y = Neg(x) }",
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_an_onnx_program_with_other_tensors_gives_way(case: str) -> None:
    """Alone it is refused, else what is behind it computes."""
    text = f'<ir_version: 9, opset_import: ["": 17]> g {PROGRAMS[case]}'
    program = onnx.parser.parse_model(text).SerializeToString()
    linked = Linked((), lambda _offsets: program)
    border = Border(*((plain_crossing(n, DType.FLOAT, SIZES, 0),) for n in "xy"))
    cpu = Alternative("cpu", AlternativeKind.ONNX, border, linked=linked)
    alone = forged(cpu).SerializeToString()
    assert difference(alone, FEEDS, "cpu,nnapi") == ""
    whole = forged(addition(crossing("y")), cpu).SerializeToString()
    assert difference(whole, FEEDS, "cpu,nnapi") is None


@providers
@pytest.mark.parametrize("prefer", ["nnapi", "cpu"])
def test_inputs_of_other_sizes_than_the_border_has_are_refused(prefer: str, make: Make) -> None:
    """Also where an alternative, here for the CPU, would compute them."""
    proto = forged(*sources()[-2])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    made = make(proto.SerializeToString(), prefer=prefer)
    with pytest.raises(Exception, match="declare them right, or not at all"):
        made.run(None, {"x": np.zeros((5, 3), np.float32)})


def test_drawn_changes_are_refused_by_both_or_computed_the_same() -> None:
    """`python -m tests.native.forged_models` draws others."""
    found = [difference(*drawn(random.Random(seed))) for seed in range(300)]
    assert not [what for what in found if what]
    assert found.count("") > 100
    assert found.count(None) > 60
