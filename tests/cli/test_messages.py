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


def refused_for(*arguments: str) -> Says:
    """On the recognizer of digits; {} in an argument is the folder."""
    return lambda user: user.reads(
        UNUSABLE, *(each.replace("{}", str(user.folder)) for each in arguments)
    )


def tolerances(wrong: str) -> Says:
    """What every verb with a tolerance says, once if they agree."""

    def says(user: User) -> str:
        out = {"fix": ("-o", user.folder / "out.onnx"), "prepare": ("-o", user.folder / "out")}
        verbs = ("run", "compare", "tune", "fix", "prepare")
        given = ("--tolerance", wrong)
        return "".join({user.reads(UNUSABLE, v, DIGITS, *given, *out.get(v, ())) for v in verbs})

    return says


def external_data_that_end_early(user: User) -> str:
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 64]) for n in ("x", "y")
    )
    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    model = onnx.helper.make_model(
        onnx.helper.make_graph([product], "g", [x], [y], [weights]), ir_version=8
    )
    path = user.folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.data", size_threshold=0)
    (user.folder / "w.data").write_bytes(bytes(100))
    return user.reads(UNUSABLE, "check", path)


def a_model_of_the_future(user: User) -> str:
    model = parsed("(float[4] x) => (float[4] y) { y = Relu (x) }")
    model.ir_version = 99
    (user.folder / "m.onnx").write_bytes(model.SerializeToString())
    return user.reads(UNUSABLE, "check", user.folder / "m.onnx")


def complex_numbers(_: User) -> str:
    return refusal(lambda: ep_nnapi.run(DIGITS, np.zeros((1, 1, 8, 8), np.complex64)))


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
    "a seed below 0": (
        refused_for("run", DIGITS, "--seed", "-1"),
        r"\Aep-nnapi: seed is -1; it must be 0 or more\Z",
    ),
    "a tolerance below 0": (
        tolerances("-1"),
        r"\Aep-nnapi: tolerance is -1\.0; it must be a number of at least 0\Z",
    ),
    "a tolerance of NaN": (
        tolerances("nan"),
        r"\Aep-nnapi: tolerance is nan; it must be a number of at least 0\Z",
    ),
    "a path that is empty": (
        refused_for("check", ""),
        r"\Aep-nnapi: the path of the model is empty\Z",
    ),
    "a folder for an input": (
        refused_for("run", DIGITS, "--input", "{}"),
        r"^ep-nnapi: /.*: a directory, no input file$",
    ),
    "the current folder for an output": (
        refused_for("report", DIGITS, "--no-levels", "-o", "."),
        r"^ep-nnapi: \. cannot be written: Is a directory$",
    ),
    "a folder for a profile, before the device is asked": (
        refused_for("profile", "-o", "{}"),
        r"^ep-nnapi: output is '/.*', which cannot be written: Is a directory$",
    ),
    "a folder for a calibration, before it is measured": (
        refused_for("devices", "--calibrate", "{}"),
        r"^ep-nnapi: output is '/.*', which cannot be written: Is a directory$",
    ),
    "a folder for settings, before candidates are measured": (
        refused_for("tune", DIGITS, "-o", "{}"),
        r"^ep-nnapi: output is '/.*', which cannot be written: Is a directory$",
    ),
    "no name for a profile": (
        refused_for("doctor", "-o", "", "--operation", "ADD"),
        r"^ep-nnapi: output is '', which cannot be written: Is a directory$",
    ),
    "contents among sizes in use": (
        refused_for("check", DIGITS, "--sizes", "x"),
        r"^ep-nnapi: sizes is 'x'; write name=1,3,224,224$",
    ),
    "more threads than a system has": (
        refused_for("check", DIGITS, "--intra-op-num-threads", "1000000"),
        r"^ep-nnapi: intra_op_num_threads is 1000000; it must be 1 to 1024$",
    ),
    "external data that end early": (
        external_data_that_end_early,
        r"\Aep-nnapi: .*: ONNX Runtime cannot load it: .* w failed\. External initializer: w .*\Z",
    ),
    "an IR version of the future": (
        a_model_of_the_future,
        r"m\.onnx failed: Unsupported model IR version: 99, max supported IR version: \d+$",
    ),
    "an array of complex numbers": (
        complex_numbers,
        "input 0 is an array of complex64; give one of real numbers",
    ),
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", DIGITS, "--receipt", "r.json"], "receipt is 'r.json', but the current folder was"),
        (["prepare", DIGITS, "-o", "out"], "the current folder: No such file or directory"),
    ],
)
def test_a_current_folder_that_was_removed(
    refuses, words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refuses(*words, says=says)
