"""Scripts and the README of a bundle."""

import subprocess

import pytest

from ep_nnapi.bundling.bundle import REMOTE, device_script, push_script, readme, run_script


@pytest.mark.parametrize(
    "text",
    [
        device_script("m.onnx", {"a b": "inputs/a_b.npy", "it's": "inputs/it_s.npy"}),
        push_script(REMOTE / "m", ["a", "it's $HOME"]),
        run_script(REMOTE / "m"),
    ],
)
def test_scripts_are_shell(text: str) -> None:
    """Of POSIX, as far as the shell here checks it without running it."""
    subprocess.run(["sh", "-n"], input=text.encode(), check=True)
    assert text.startswith("#!/")
    assert "\t" not in text


def test_inputs_are_quoted() -> None:
    text = device_script("it's.onnx", {"a$b": "inputs/a_b.npy"})
    assert """exec ./nnapi_run 'it'"'"'s.onnx' \\\n  --input 'a$b=inputs/a_b.npy' \\\n""" in text


@pytest.mark.parametrize(("level", "says"), [(1, "level 27 or"), (5, "level 31 or"), (6, None)])
def test_the_readme_names_the_api_level_where_there_is_one(level: int, says: str | None) -> None:
    text = readme("m.onnx", ["m.onnx", "m.weights"], "x86_64", level, REMOTE)
    assert f"NNAPI feature level {level} or higher" in text
    assert ("Android API level" in text) == (says is not None)
    assert says is None or says in text
    assert "`m.onnx`, `m.weights`" in text
    assert f"adb push device/. {REMOTE}" in text


def test_the_readme_of_a_bundle_for_applications() -> None:
    text = readme("m.onnx", ["m.onnx"], "x86_64", 1, None)
    assert "adb" not in text
    assert "src/main/jniLibs/x86_64/" in text
