"""Operands of shape inference, written briefly."""

import numpy as np

from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Tensor


def t(*dims):
    return Tensor(dims)


def ints(*numbers):
    return Tensor.of(np.array(numbers, np.int32))


def one(row, **operands):
    (found,) = infer(row, operands)
    return found
