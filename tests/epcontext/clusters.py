"""Lowered clusters for tests of containers: of floats, quantized, with referenced models."""

from __future__ import annotations

import numpy as np
import onnx

from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.spec import ADD, IF, RELU
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from models.quantized import quantized
from tests.provider.test_planner import model

SUM = model("Add x w -> a", "Mul a v -> b", "Tanh b -> y", constants="w v")
VECTOR = Operand(OperandCode.TENSOR_FLOAT32, (4,))


def lowered(source: onnx.ModelProto = SUM, **options: object) -> Lowered:
    """The first cluster of a model."""
    cluster = partitioned(source, **options).clusters[0]
    assert isinstance(cluster, CompiledCluster)
    return cluster.lowered


def quantized_digits() -> Lowered:
    """With scales per channel."""
    return lowered(quantized("digits", "u8s8"))


def constant(value: np.ndarray, code: OperandCode, *dims: int) -> Operand:
    return Operand(code, dims, value=Data.of(np.atleast_1d(value)))


def branching() -> Lowered:
    """IF, both of whose branches refer to one model, which adds what it finds in the weights."""
    ones = constant(np.ones(4, np.float32), OperandCode.TENSOR_FLOAT32, 4)
    none = constant(np.int32(0), OperandCode.INT32)
    branch = Model((VECTOR, ones, none, VECTOR), (Operation(ADD, (0, 1, 2), (3,)),), (0,), (3,))
    inner = Operand(OperandCode.MODEL, value=branch)
    flag = Operand(OperandCode.TENSOR_BOOL8, (1,))
    whole = Model(
        (flag, VECTOR, inner, inner, VECTOR, VECTOR),
        (Operation(IF, (0, 2, 3, 1), (4,), ("a", "b")), Operation(RELU, (4,), (5,))),
        (0, 1),
        (5,),
    )
    crossings = [
        Crossing("which", DType.BOOL, (), 0, None, (1,), np.dtype(np.bool_)),
        Crossing("x", DType.FLOAT, (2, 2), 1, (1, 0), (4,), np.dtype(np.float32)),
        Crossing("y", DType.FLOAT, (4,), 0, None, (4,), np.dtype(np.float32)),
    ]
    return Lowered(whole, Border(tuple(crossings[:2]), tuple(crossings[2:])))
