"""Models with clusters compiled into EPContext nodes: what stays, what goes, and the metadata."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.cli.main import main
from ep_nnapi.epcontext.layout import CONTEXT_DOMAIN, CONTEXT_OP, EP_SOURCE, FORMAT_VERSION
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.write_epcontext import save_context
from ep_nnapi.report.report import Report
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import model_of, parsed
from tests.provider.test_planner import SHAPE, model

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)


def written(
    proto: onnx.ModelProto, folder: Path, *, embed: bool = True, **options: object
) -> tuple[onnx.ModelProto, Report]:
    """The model that is written for `proto`, and the report."""
    source, out = folder / "source.onnx", folder / "out.onnx"
    onnx.save(proto, source)
    more = {"device": "nnapi-reference", "embed": embed, "partial": True, **options}
    report, _ = save_context(source, out, job_of({"format": "context", **more}))
    return onnx.load(out), report


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def computed(folder: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of a session on the written model."""
    return nnapi_session(str(folder / "out.onnx"), severity=4, device="nnapi-reference").run(
        None, feeds
    )


def matches(proto: onnx.ModelProto, folder: Path, *names: str) -> None:
    feeds = dict.fromkeys(names or ("x",), X)
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(computed(folder, feeds)[0], wanted, atol=1e-6)  # TANH in float32


@pytest.mark.parametrize("embed", [True, False])
def test_a_whole_model_becomes_one_node(tmp_path: Path, embed: bool) -> None:
    proto = model("Add x w -> a", "Tanh a -> y", constants="w")
    found, report = written(proto, tmp_path, embed=embed)
    (node,) = found.graph.node
    assert (node.op_type, node.domain, node.name) == (CONTEXT_OP, CONTEXT_DOMAIN, "nnapi_0")
    assert (list(node.input), list(node.output)) == (["x"], ["y"])
    assert not found.graph.initializer  # only the cluster reads w
    assert report.taken == 2
    weights = [p.name for p in tmp_path.glob("out.*.weights")]
    assert len(weights) == (0 if embed else 1)
    matches(proto, tmp_path)


def test_nodes_of_the_cpu_stay_in_an_order_that_runs(tmp_path: Path) -> None:
    """Two clusters around a node that is excluded, and a constant that it reads."""
    proto = model("Abs x -> a", "Mul a w -> b", "Add b w -> y", constants="w")
    found, report = written(proto, tmp_path, exclude="Mul")
    assert kinds(found) == [CONTEXT_OP, "Mul", CONTEXT_OP]
    assert [n.name for n in found.graph.node if n.op_type == CONTEXT_OP] == ["nnapi_0", "nnapi_1"]
    assert [t.name for t in found.graph.initializer] == ["w"]  # Mul reads it
    assert {v.name for v in found.graph.value_info} >= {"a"}
    assert len(report.clusters) == 2
    matches(proto, tmp_path)


def test_initializers_that_are_inputs_stay(tmp_path: Path) -> None:
    proto = model("Add x w -> a", "Tanh a -> y", constants="w")
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, SHAPE))
    found, _ = written(proto, tmp_path)
    assert [t.name for t in found.graph.initializer] == ["w"]
    assert [i.name for i in found.graph.input] == ["x", "w"]


def test_nodes_of_equal_names_are_told_apart(tmp_path: Path) -> None:
    proto = model("Abs x -> a", "Exp a -> b", "Neg b -> y")
    for node, name in zip(proto.graph.node, ["same", "", "same"], strict=True):
        node.name = name
    _, report = written(proto, tmp_path, exclude="Exp")
    assert [c.nodes for c in report.clusters] == [("same",), ("same#2",)]
    assert [r.node for r in report.rejections] == ["b"]  # unnamed: by its first output
    matches(proto, tmp_path)


def test_metadata_and_opset(tmp_path: Path) -> None:
    found, _ = written(model("Neg x -> y"), tmp_path)
    metadata = {p.key: p.value for p in found.metadata_props}
    assert metadata["ep_nnapi.format"] == str(FORMAT_VERSION)
    assert metadata["ep_nnapi.feature_level"] == "3"  # NEG's
    assert "nnapi-reference" in metadata[f"ep_compatibility_info.{EP_SOURCE}"]
    assert [(o.domain, o.version) for o in found.opset_import if o.domain] == [(CONTEXT_DOMAIN, 1)]


def branches(*bodies: Sequence[str]) -> onnx.ModelProto:
    """If c: then and else graphs, each a chain of operators of one input."""
    sizes, graphs = ",".join(map(str, SHAPE)), []
    for i, body in enumerate(bodies):
        names = ["x", *(f"v{i}{n}" for n in range(len(body)))]
        chain = (f"[{op}_{i}] {names[n + 1]} = {op} ({names[n]})" for n, op in enumerate(body))
        graphs.append(f"branch{i} () => (float[{sizes}] {names[-1]}) {{ {' '.join(chain)} }}")
    chosen = f"[choice] y = If (c) <then_branch = {graphs[0]}, else_branch = {graphs[1]}>"
    return model_of(chosen, {"c": (bool, ()), "x": SHAPE}, {"y": SHAPE}, opset=21)


def test_clusters_of_subgraphs_are_replaced_there(tmp_path: Path) -> None:
    proto = branches(["Abs", "Neg"], ["Exp", "Tanh"])
    found, _ = written(proto, tmp_path)
    (choice,) = found.graph.node
    inner = {a.name: [n.op_type for n in a.g.node] for a in choice.attribute}
    assert inner == {"then_branch": [CONTEXT_OP], "else_branch": [CONTEXT_OP]}
    for flag in (True, False):
        feeds = {"c": np.array(flag), "x": X}
        (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
        np.testing.assert_allclose(computed(tmp_path, feeds)[0], wanted, atol=1e-6)


def test_symbolic_sizes_are_compiled_when_they_run(tmp_path: Path) -> None:
    proto = model("Abs x -> a", "Add a x -> y")
    other = helper.make_tensor_value_info("z", TensorProto.FLOAT, SHAPE)
    proto.graph.node.append(helper.make_node("Neg", ["z"], ["t"], "Neg_t"))
    proto.graph.input.append(other)
    proto.graph.output.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, SHAPE))
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_param = "rows"
    found, report = written(proto, tmp_path)
    assert sorted(kinds(found)) == ["Abs", "Add", CONTEXT_OP]
    assert report.taken == 3
    both = computed(tmp_path, {"x": X[:1], "z": X})
    np.testing.assert_allclose(both[0], np.abs(X[:1]) + X[:1])
    np.testing.assert_allclose(both[1], -X)


def nothing(proto: onnx.ModelProto, folder: Path, **options: object) -> str:
    with pytest.raises(ModelError) as caught:
        written(proto, folder, **options)
    assert not (folder / "out.onnx").exists()
    return str(caught.value)


def test_nothing_to_compile(tmp_path: Path) -> None:
    proto = model("Abs x -> y")
    assert "NNAPI takes no node of this model" in nothing(proto, tmp_path, exclude="Abs")
    for info in (proto.graph.input[0], proto.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_param = "rows"
    assert "give them with --fix x=SIZES" in nothing(proto, tmp_path)


def test_sizes_that_the_model_computes_cannot_be_fixed(tmp_path: Path) -> None:
    """NonZero's output has as many columns as x has elements that are not 0."""
    proto = model("NonZero x -> i", "Cast i -> f", "Tanh f -> y")
    proto.graph.node[1].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "found"
    assert "depend on what the model computes" in nothing(proto, tmp_path, exclude="Cast")


def test_large_models_keep_their_tensors_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ep_nnapi.preparation.write_epcontext.EXTERNAL_DATA_THRESHOLD", 100)
    proto = model("Abs x -> a", "Mul a w -> y", constants="w")
    large = numpy_helper.from_array(np.ones((512, *SHAPE), np.float32), "w")
    proto.graph.initializer[0].CopyFrom(large)
    proto.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (512, *SHAPE))
    )
    written(proto, tmp_path, exclude="Mul")
    assert len(list(tmp_path.glob("out.*.data"))) == 1
    (result,) = computed(tmp_path, {"x": X})
    np.testing.assert_array_equal(result[511], np.abs(X))


def of_both_sizes(path: Path, rows: int | str = "rows") -> Path:
    """Two products, of which only the second has a symbolic number of rows."""
    text = f"""(float[3,4] a, float[{rows},4] b) => (float[3,2] y, float[rows,1000] z) {{
        y = MatMul (a, w2) z = MatMul (b, w1000) }}"""
    weights = {f"w{n}": np.ones((4, n), np.float32) for n in (2, 1000)}
    onnx.save(parsed(text, **weights), path)
    return path


def test_what_symbolic_sizes_leave_is_refused_or_counted(tmp_path: Path, capsys) -> None:
    path, out = of_both_sizes(tmp_path / "m.onnx"), tmp_path / "out"
    command = ["prepare", str(path), "-o", str(out), "--format", "context"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "only 1 of the 2 nodes that NNAPI takes can be compiled ahead of time, with 32 " in said
    assert "sizes depend on b; give them with --fix b=SIZES, or leave the rest to" in said
    assert not list(out.glob("*.onnx"))
    for more, nodes, weights in (["--partial"], 1, 32), (["--fix", "rows=5"], 2, 16032):
        assert main([*command, *more]) == 0
        printed = f"m_ctx.onnx: compiled {nodes} of 2 nodes, with {weights:,} bytes of weights"
        assert f"{printed} (the model has 16,032)" in capsys.readouterr().out
        (entry,) = json.loads((out / "manifest.json").read_text())["models"]
        expected = {"nodes": nodes, "weight_bytes": weights, "model_weight_bytes": 16032}
        assert entry["compiled"] == expected


def test_partial_is_for_contexts() -> None:
    with pytest.raises(OptionError, match="partial is for format context only, not ort"):
        job_of({"partial": True})
