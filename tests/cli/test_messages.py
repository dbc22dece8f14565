"""What users met as a traceback, in silence or as a wrong guess: the sentence that answers it."""

import errno
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import networkx as nx
import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi import NnapiError
from ep_nnapi.preparation import manifest
from partitioner import Costs, partition, worth_it
from tests.cli.command import DIGITS, DONE, NEGATIVE, UNUSABLE
from tests.native.build import ROOT, needs_compiler
from tests.native.ort_program import linked
from tests.native.sessions import LIBRARY, REFERENCE, prepared
from tests.onnx_graph import parsed

Command = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class User:
    """Where something is tried, and the command line."""

    folder: Path
    cli: Command

    def reads(self, code: int, *arguments: object) -> str:
        """What a command says on stderr, with this exit code."""
        found, _, err = self.cli(*arguments)
        assert found == code
        return err


Says = Callable[[User], str]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises((NnapiError, ValueError)) as caught:
        call()
    return str(caught.value)


def a_folder_with(name: str) -> Says:
    def says(user: User) -> str:
        (user.folder / "good.onnx").symlink_to(DIGITS)
        (user.folder / name).touch()
        return user.reads(NEGATIVE, "check", user.folder)

    return says


def an_executor_by_name(user: User) -> str:
    executor: object = "dask"
    return refusal(lambda: ep_nnapi.prepare(DIGITS, user.folder, executor=executor))  # type: ignore[arg-type]


def a_manifest_on_a_full_disk(user: User) -> str:
    """Its path is not promised on stdout either."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch.object(manifest, "write", side_effect=full):
        code, out, err = user.cli("prepare", DIGITS, "-o", user.folder / "out")
    assert (code, out) == (UNUSABLE, "")
    return err


def a_listing_of_open_sizes(*options: str) -> Says:
    """On stderr, as the model is complete for the sizes in it."""

    def says(user: User) -> str:
        onnx.save(
            parsed("(float[n,4] x) => (float[n,4] y) { y = Relu (x) }"), user.folder / "m.onnx"
        )
        return user.reads(DONE, "listing", user.folder / "m.onnx", *options) or "nothing"

    return says


def the_bare_name_of_the_plugin(user: User) -> str:
    """The C program has its library in the working directory."""
    program = linked(user.folder, ROOT / "examples" / "prepared_model.c")
    model = prepared(onnx.load(DIGITS), user.folder)
    plugin = Path(ep_nnapi.context_library_path())
    (user.folder / plugin.name).symlink_to(plugin)
    image = np.load(ROOT / "models" / "digits" / "samples.npz")["images"][4:5]
    command = [str(program), plugin.name, str(model), LIBRARY, REFERENCE]
    done = subprocess.run(
        command, input=image.tobytes(), capture_output=True, check=True, cwd=user.folder
    )
    return done.stdout.decode()


def costs(**wrong: object) -> Says:
    def says(_: User) -> str:
        given: dict[str, object] = {"here": {"a": 2}, "there": {"a": 1}, **wrong}
        return refusal(lambda: worth_it(nx.DiGraph([("a", "b")]), ["a"], Costs(**given)))  # type: ignore[arg-type]

    return says


def tensors(edge: object, **node: object) -> Says:
    def says(_: User) -> str:
        dag = nx.DiGraph()
        dag.add_node(1, **node)
        dag.add_edge(1, 2, tensors=edge)
        return refusal(lambda: partition(dag, [1, 2]))

    return says


def a_dictionary_for_a_graph(_: User) -> str:
    return refusal(lambda: partition({1: [2]}, [1]))  # type: ignore[type-var]


def a_module_in(dtype: str) -> Says:
    def says(_: User) -> str:
        import torch

        from ep_nnapi.torch import to_nnapi

        kind: torch.dtype = getattr(torch, dtype)
        module, image = torch.nn.Conv2d(3, 2, 3).to(kind), torch.ones(1, 3, 8, 8, dtype=kind)
        return refusal(lambda: to_nnapi(module, image))

    return says


def keyword_arguments_as_for_torch_export(_: User) -> str:
    import torch

    from ep_nnapi.torch import to_nnapi

    converted = to_nnapi(torch.nn.Linear(4, 2).eval(), (), {"input": torch.ones(3, 4)})
    return str(converted(input=torch.ones(3, 4)).shape)


def another_batch(_: User) -> str:
    import torch

    from ep_nnapi.torch import to_nnapi

    converted = to_nnapi(torch.nn.Linear(4, 2).eval(), torch.ones(3, 4))
    return refusal(lambda: converted(torch.ones(2, 4)))


MET: dict[str, tuple[Says, str]] = {
    "a name in a folder that is not UTF-8": (
        a_folder_with("\udcff.onnx"),
        r"^ep-nnapi: \\udcff\.onnx: .* opens no file whose name is not UTF-8$",
    ),
    "an empty file": (a_folder_with("empty.onnx"), r"^ep-nnapi: empty\.onnx: the file is empty$"),
    "an executor by its name": (
        an_executor_by_name,
        "executor is 'dask'; give an Executor, such as dask's get_executor",
    ),
    "a manifest on a full disk": (
        a_manifest_on_a_full_disk,
        r"\Aep-nnapi: No space left on device\Z",
    ),
    "a listing of a size that is open": (
        a_listing_of_open_sizes(),
        r"^ep-nnapi: x is \['n', 4\]: sizes that come of it are only tried here",
    ),
    "a listing of the same size given": (a_listing_of_open_sizes("--fix", "n=2"), r"\Anothing\Z"),
    "a cost of NaN": (
        costs(here={"a": float("nan")}),
        "costs here: 'a' has nan; give a number of at least 0",
    ),
    "a cost below 0": (costs(there={"a": -1.0}), r"costs there: 'a' has -1\.0; give"),
    "a cost that is a text": (costs(here={"a": "1"}), "costs here: 'a' has '1'; give"),
    "costs that are missing": (costs(here=None), "costs here are None; give a dictionary"),
    "costs in a list": (costs(there=[]), r"costs there are \[\]; give a dictionary"),
    "a byte below 0": (costs(per_byte=-1e-3), r"costs: 'per_byte' has -0\.001; give"),
    "a cluster of infinity": (costs(per_cluster=float("inf")), "costs: 'per_cluster' has inf"),
    "a tensor of text": (
        tensors({"t": "4"}),
        "tensors of the edge from 1 to 2: 't' has '4'; give a number of at least",
    ),
    "a tensor of NaN": (tensors({"t": float("nan")}), "'t' has nan"),
    "tensors in a list": (
        tensors(["t"]),
        r"tensors of the edge from 1 to 2 are \['t'\]; give a dictionary",
    ),
    "an input below 0": (tensors({}, inputs={"t": -4}), "the inputs of node 1: 't' has -4"),
    "an output of None": (tensors({}, outputs={"t": None}), "the outputs of node 1: 't' has None"),
    "a dictionary for a graph": (a_dictionary_for_a_graph, "must be a DiGraph, not a dict"),
}
COMPILED: dict[str, tuple[Says, str]] = {
    "the bare name of the plugin in C": (the_bare_name_of_the_plugin, "this is a 4$"),
}
TORCH: dict[str, tuple[Says, str]] = {
    "a module in bfloat16": (a_module_in("bfloat16"), r"weight is of type BFLOAT16, .* by float\("),
    "a module in float64": (a_module_in("float64"), r"weight is of type DOUBLE, .* by float\(\)"),
    "no example but by keyword": (keyword_arguments_as_for_torch_export, r"\[3, 2\]"),
    "another batch than the example": (
        another_batch,
        r"invalid dimensions for input: .*, dynamic_shapes=",
    ),
}
TABLE = [
    *(pytest.param(*row, id=name) for name, row in MET.items()),
    *(pytest.param(*row, id=name, marks=needs_compiler) for name, row in COMPILED.items()),
    *(pytest.param(*row, id=name, marks=pytest.mark.torch) for name, row in TORCH.items()),
]


@pytest.mark.parametrize(("says", "sentence"), TABLE)
def test_what_was_met_has_its_answer(says: Says, sentence: str, cli: Command, tmp_path: Path):
    found = says(User(tmp_path, cli)).strip("\n")
    assert re.search(sentence, found, re.MULTILINE), found
    assert "Traceback" not in found
