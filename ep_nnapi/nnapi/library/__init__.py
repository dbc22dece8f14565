"""Client of any NNAPI library (Android's, a board's, this project's), through its C API."""

from ep_nnapi.nnapi.library.binding import SYSTEM, load
from ep_nnapi.nnapi.library.runtime import LibraryRuntime

__all__ = ["SYSTEM", "LibraryRuntime", "load"]
