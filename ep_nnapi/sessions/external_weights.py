"""Weights of a model as external initializers, which ONNX Runtime's Python API takes by name."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, TensorProto, helper

from ep_nnapi.nnapi.array import Array


def with_external_weights(content: bytes, weights: Mapping[str, Array]) -> bytes:
    """Return a model whose last inputs, the weights, are external initializers instead."""
    if not weights:
        return content
    proto = ModelProto.FromString(content)
    del proto.graph.input[-len(weights) :]
    for name, value in weights.items():
        tensor = proto.graph.initializer.add(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
            dims=value.shape,
            data_location=TensorProto.EXTERNAL,
        )
        tensor.external_data.add(key="location", value="weights")
    changed: bytes = proto.SerializeToString()
    return changed
