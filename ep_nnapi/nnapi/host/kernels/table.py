"""Table of all kernels. It imports all families, so it is imported when something is computed."""

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.families import families
from ep_nnapi.nnapi.host import kernels
from ep_nnapi.nnapi.host.kernel import Kernel, table
from ep_nnapi.nnapi.signature import OperationSpec

KERNELS = table(
    *(k for f in families(kernels.__name__, kernels.__path__) for k in getattr(f, "KERNELS", ()))
)


def find(spec: OperationSpec, code: OperandCode | None) -> Kernel | None:
    """Returns the kernel for an operation with type variable T = `code`; None if there is none."""
    return KERNELS.get((spec, code)) or KERNELS.get((spec, None))
