"""Names of the provider and of its options in ONNX Runtime's session configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

EP_NAME = "NnapiPluginExecutionProvider"
VENDOR = "ep-nnapi"
_VIRTUAL = ".virtual"  # Source: OrtApi::RegisterExecutionProviderLibrary.
ALLOW_VIRTUAL = "allow_virtual_devices"  # Source: kOrtEnvAllowVirtualDevices.
_OPTION_PREFIX = f"ep.{EP_NAME.lower()}."


def semantic_version() -> str:
    """Returns the package's version as x.y.z for ONNX Runtime; 0.0.0 if it is not installed."""
    try:
        release = re.match(r"\d+\.\d+\.\d+", version("ep-nnapi"))
    except PackageNotFoundError:
        release = None
    return release.group() if release else "0.0.0"


def provider_options(entries: Mapping[str, str]) -> dict[str, str]:
    """Returns this provider's options from a session's configuration entries, without prefix.

    >>> provider_options({"ep.nnapipluginexecutionprovider.flags": "1", "session.load": "x"})
    {'flags': '1'}
    """
    start = len(_OPTION_PREFIX)
    return {k[start:]: v for k, v in entries.items() if k.startswith(_OPTION_PREFIX)}


def is_virtual(registered_name: str) -> bool:
    """Returns True if a library that is registered under this name offers virtual devices.

    >>> is_virtual("nnapi.virtual"), is_virtual("nnapi")
    (True, False)
    """
    return registered_name.endswith(_VIRTUAL)


def without_prefix(name: str) -> str:
    """Returns a provider option's name without this provider's prefix, if it has it.

    >>> without_prefix("ep.nnapipluginexecutionprovider.priority"), without_prefix("priority")
    ('priority', 'priority')
    """
    return name.removeprefix(_OPTION_PREFIX)


def with_prefix(name: str) -> str:
    """Returns the configuration entry of a provider option.

    >>> with_prefix("priority")
    'ep.nnapipluginexecutionprovider.priority'
    """
    return f"{_OPTION_PREFIX}{name}"
