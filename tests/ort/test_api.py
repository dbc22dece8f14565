"""Types, texts and statuses of ONNX Runtime's C API."""

from importlib.metadata import PackageNotFoundError

import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.ort import api as module
from ep_nnapi.ort._native import ffi
from ep_nnapi.ort.api import OrtError, api, check, dtype, status_of, text
from ep_nnapi.ort.session import register


@pytest.mark.parametrize("known", [DType.FLOAT, DType.INT4, DType.FLOAT4E2M1])
def test_element_types_have_onnx_s_codes(known: DType) -> None:
    assert dtype(known) is known


def test_the_newest_element_types_are_numbered_otherwise() -> None:
    """And what is unknown is not guessed."""
    assert [dtype(code) for code in (24, 25, 26)] == [DType.UINT2, DType.INT2, DType.FLOAT8E8M0]
    assert dtype(27) is DType.UNDEFINED
    assert dtype(-1) is DType.UNDEFINED


@pytest.mark.parametrize(("raw", "said"), [(b"", ""), ("ü".encode(), "ü"), (b"\xff", "\udcff")])
def test_texts(raw: bytes, said: str) -> None:
    string = ffi.new("char[]", raw)
    assert text(string) == said
    assert said.encode("utf-8", "surrogateescape") == raw


def test_a_null_text_is_empty() -> None:
    assert text(ffi.NULL) == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelError("the model is broken"), "the model is broken"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError("\udcff"), r"ValueError: \udcff"),
        (ModelError("a\x1b[2J\x9b2J\u202eb\nc é"), r"a\x1b[2J\x9b2J\u202eb\nc é"),
    ],
)
def test_an_error_as_a_status_and_back(error: Exception, said: str) -> None:
    register()  # the C API is known from then on
    status = status_of(error)
    assert text(api().GetErrorMessage(status)) == said
    with pytest.raises(OrtError, match=r"^onnxruntime: "):
        check(status)  # releases it


def test_no_status_is_success() -> None:
    check(ffi.NULL)


# Names of the provider, its version and its options for ONNX Runtime


@pytest.mark.parametrize(
    ("installed", "said"), [("1.2.3", "1.2.3"), ("1.2.3.dev4+g1", "1.2.3"), ("1.2", "0.0.0")]
)
def test_the_version_has_three_numbers(installed: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "version", lambda package: installed)
    assert module.semantic_version() == said


def test_a_source_tree_that_is_not_installed_has_version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(module, "version", missing)
    assert module.semantic_version() == "0.0.0"


def test_options_are_the_entries_of_this_provider() -> None:
    entries = {
        f"ep.{module.EP_NAME.lower()}.flags": "1",
        f"ep.{module.EP_NAME.lower()}.": "empty",
        "ep.other.flags": "2",
        "ep.context_enable": "1",
    }
    assert module.provider_options(entries) == {"flags": "1", "": "empty"}
    assert module.provider_options({}) == {}
