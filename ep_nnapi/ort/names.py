"""What the provider is called, and how ONNX Runtime spells its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

EP_NAME = "NnapiPluginExecutionProvider"
VENDOR = "ep-nnapi"
WRITES_CONTEXT = "ep.context_enable"  # ONNX Runtime's own entry: "1" asks for a compiled model
_OPTION_PREFIX = f"ep.{EP_NAME.lower()}."


def semantic_version() -> str:
    """The package's release as ONNX Runtime demands it, x.y.z; 0.0.0 when it is not installed."""
    try:
        release = re.match(r"\d+\.\d+\.\d+", version("ep-nnapi"))
    except PackageNotFoundError:
        release = None
    return release.group() if release else "0.0.0"


def own_entries(entries: Mapping[str, str]) -> dict[str, str]:
    """The options of this provider among a session's configuration entries.

    >>> own_entries({"ep.nnapipluginexecutionprovider.flags": "1", "session.load": "x"})
    {'flags': '1'}
    """
    start = len(_OPTION_PREFIX)
    return {k[start:]: v for k, v in entries.items() if k.startswith(_OPTION_PREFIX)}
