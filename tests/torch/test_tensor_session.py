"""Sessions of tensors."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from onnx import TensorProto, helper  # noqa: E402

from ep_nnapi import ModelError  # noqa: E402
from ep_nnapi.torch.tensor_session import TensorSession  # noqa: E402
from tests.onnx_graph import model_of  # noqa: E402

pytestmark = pytest.mark.torch


def identity(dtype: int) -> bytes:
    typed = helper.tensor_dtype_to_np_dtype(dtype).type, (2,)
    return model_of("y = Identity (x)", {"x": typed}, {"y": typed}).SerializeToString()


TYPES = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.INT64: torch.int64,
    TensorProto.BOOL: torch.bool,
    TensorProto.UINT8: torch.uint8,
}


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: int):
    given = torch.tensor([0, 1], dtype=TYPES[dtype])
    (found,) = TensorSession(identity(dtype), {}).run([given])
    assert found.dtype == given.dtype
    assert torch.equal(found, given)


def test_bfloat16_is_refused():
    with pytest.raises(ModelError, match=r"x is of type bfloat16.*float\(\)"):
        TensorSession(identity(TensorProto.BFLOAT16), {})


def test_a_wrong_type_is_one_sentence():
    session = TensorSession(identity(TensorProto.FLOAT), {})
    with pytest.raises(ModelError, match=r"Unexpected input data type.*int64") as caught:
        session.run([torch.tensor([1, 2])])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.ones(2, dtype=torch.bfloat16), r"type torch\.bfloat16.* cannot be an input"),
        (torch.ones(2).to_sparse(), r"layout torch\.sparse_coo"),
        (torch.ones(2, device="meta"), "device meta"),
        (torch.ones(2, dtype=torch.complex64), "complex tensor; .*view_as_real"),
    ],
    ids=["bfloat16", "sparse", "meta", "complex"],
)
def test_tensors_that_are_no_inputs(given: torch.Tensor, said: str):
    with pytest.raises(ModelError, match=said) as caught:
        TensorSession(identity(TensorProto.FLOAT), {}).run([given])
    assert "\n" not in str(caught.value)


def test_threads_and_metadata():
    session = TensorSession(identity(TensorProto.FLOAT), {"intra_op_num_threads": 1})
    assert (session.inputs, session.outputs) == (["x"], ["y"])
    assert dict(session.metadata) == {}
