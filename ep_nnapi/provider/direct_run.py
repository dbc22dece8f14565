"""Runs of a cluster that need nothing of this package: those of a session with its own tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ep_nnapi.lowering.border import BoundBorder, Place, Unconverted
from ep_nnapi.nnapi.expressions import Condition
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import Compilation, DirectCompilation
from ep_nnapi.provider.cluster_record import CountDirectRuns
from ep_nnapi.provider.compiler import Compiler


@frozen
class OpenSizes:
    """What the sizes of a run's inputs must meet, where others than those of one run will do.

    symbols  for each symbol the position of an input that has it as a size, and the axis; or True
             and the position among the contents of an input of integers
    """

    symbols: Mapping[str, tuple[int, int, bool]]
    conditions: tuple[Condition, ...]


@frozen
class DirectRun:
    """A session of ONNX Runtime, or a `Program`, that computes a cluster, and its tensors there.

    given  inputs of the cluster: it computes those of these shapes and contents
    used   to be called for runs of the session that its runner knows nothing of
    count  takes what returns the number and, if they are `timed`, the times of such runs
    by     equal for runs that are counted together
    sizes  where the shapes in `tensors` and `given` have a `Size`; None if there is none
    """

    session: object
    tensors: Unconverted
    given: tuple[Place, ...]
    used: Callable[[], object] = lambda: None
    count: Callable[[CountDirectRuns], object] = lambda _: None
    timed: bool = False
    by: object = None
    sizes: OpenSizes | None = None


def direct_run(
    compiler: Compiler, compilation: Compilation, border: BoundBorder
) -> DirectRun | None:
    """Returns what computes the cluster, as long as the compiler's options stay as they are.

    None if the border converts more than INT64 to INT32 and back, or if runs are limited or
    listened to. No session of ONNX Runtime measures what `Compiler.measure` asks for.
    """
    tensors = border.unconverted
    if (
        tensors is None
        or compiler.listeners
        or compiler.current_of_session.limits.timeout_ns is not None
        or not isinstance(compilation, DirectCompilation)
    ):
        return None
    session = compilation.direct_session()
    return None if session is None else DirectRun(session, tensors, tensors.inputs)
