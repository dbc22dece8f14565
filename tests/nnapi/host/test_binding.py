"""Calls of a kernel: by a table, in blocks, or at once."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import elementwise, pointwise, real
from ep_nnapi.nnapi.host.kernel_call import BlockwiseCall, KernelCall, LookupTable, bind
from ep_nnapi.nnapi.spec import F16, F32, Q8
from tests.nnapi.host.named import named


def absolute(input: np.ndarray, out: np.ndarray) -> None:
    np.abs(input, out=out)


@pytest.mark.parametrize(
    ("kernel", "code", "expected"),
    [
        (pointwise(spec.ABS, absolute), Q8, LookupTable),
        (pointwise(spec.ABS, absolute), F16, BlockwiseCall),
        (pointwise(spec.ABS, absolute), F32, KernelCall),
        (elementwise(spec.ABS, absolute), Q8, BlockwiseCall),
        (elementwise(spec.ABS, absolute), F32, KernelCall),
        (real(spec.ABS, absolute), Q8, KernelCall),
    ],
)
def test_the_call_for_a_kind_of_kernel_and_a_type(kernel, code, expected):
    op, _ = named(spec.ABS, code, {"input": (4,)}, (4,), {})
    assert type(bind(kernel, op, {})) is expected


def test_a_table_needs_all_other_operands() -> None:
    """A table holds for one value of the scalar."""

    def clipped(input: np.ndarray, alpha: int, out: np.ndarray) -> None:
        np.minimum(input, alpha, out=out)

    kernel = pointwise(spec.ELU, clipped)
    op, index = named(spec.ELU, Q8, {"input": (4,)}, (4,), {"alpha": 0})
    assert type(bind(kernel, op, {index["alpha"]: np.array(3)})) is LookupTable
    assert type(bind(kernel, op, {})) is BlockwiseCall
