"""`python -m models.zoo`."""

import doctest

import onnx
import pytest

from models import mobile, sizes, zoo


def test_writes_named_models(tmp_path, capsys):
    assert zoo.main([str(tmp_path / "deep" / "er"), "mlp", "espcn"]) == 0
    files = sorted(path.name for path in (tmp_path / "deep" / "er").iterdir())
    assert files == ["espcn.onnx", "mlp.onnx"]
    assert onnx.load(tmp_path / "deep/er/mlp.onnx") == zoo.MODELS["mlp"]()
    assert capsys.readouterr().out.splitlines() == [
        "mlp                     5 nodes     669,706 parameters    2.7 MB",
        "espcn                   6 nodes      22,729 parameters    0.1 MB",
    ]


def test_writes_everything_when_no_name_is_given(tmp_path, monkeypatch):
    few = {name: zoo.MODELS[name] for name in ("mlp", "espcn", "kws_dscnn")}
    monkeypatch.setattr(zoo, "MODELS", few)
    assert zoo.main([str(tmp_path)]) == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(few)


def test_writes_nothing_when_one_fails(tmp_path, monkeypatch):
    def fails():
        raise RuntimeError("no memory left")

    monkeypatch.setitem(zoo.MODELS, "fails", fails)
    with pytest.raises(RuntimeError, match="no memory left"):
        zoo.main([str(tmp_path), "mlp", "fails"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage: python -m models.zoo DIRECTORY [NAME ...]"),
        (["somewhere", "resnet"], "no model is called 'resnet'; there are mobilenet_v1, "),
    ],
)
def test_refuses_arguments(arguments, message, capsys):
    assert zoo.main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


def test_refuses_a_directory_that_cannot_be(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert zoo.main([str(tmp_path / "file"), "mlp"]) == 2
    assert capsys.readouterr().err == f"cannot write to {tmp_path / 'file'}: File exists\n"


@pytest.mark.parametrize("module", [mobile, sizes, zoo], ids=lambda module: module.__name__)
def test_examples(module):
    assert doctest.testmod(module) == (0, doctest.testmod(module).attempted)
