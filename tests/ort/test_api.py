"""Types, texts and statuses of ONNX Runtime's C API."""

from __future__ import annotations

import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check, dtype, status_of, text
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
    assert text(lib.status_message(status)) == said
    with pytest.raises(OrtError, match=r"^onnxruntime: "):
        check(status)  # releases it


def test_no_status_is_success() -> None:
    check(ffi.NULL)
