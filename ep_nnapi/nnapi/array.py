"""The types of arrays: numpy's, of any element type and shape."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = Sequence[Array | None]
"""Inputs or outputs of a run: None for each that is not given."""
