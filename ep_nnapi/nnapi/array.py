"""The type of arrays: numpy's, of any element type and shape."""

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
