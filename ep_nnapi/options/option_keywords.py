"""Types of the options as keyword arguments, by which editors complete them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict, Unpack, cast

from ep_nnapi.options.target import NnapiFlag

_File: TypeAlias = str | os.PathLike[str] | None
_Names: TypeAlias = str | Sequence[str]


class OptionKeywords(TypedDict, total=False):
    """Keyword arguments of all functions that take options.

    `options.Options` says what each means, its parser which values it takes; every value may be a
    string, as in ONNX Runtime's provider options.
    """

    flags: NnapiFlag | int | str
    feature_level: int | str
    api_level: int | str
    runtime: str | os.PathLike[str]
    device: str | None
    device_profile: _File
    target: str
    partitioning: str
    calibration: _File
    exclude: _Names
    partitioning_stop_ops: _Names
    min_cluster_nodes: int | str
    max_clusters: int | str
    max_cluster_nodes: int | str
    max_cluster_weight_bytes: int | str
    max_cluster_activation_bytes: int | str
    dynamic_shapes: str
    shape_cache: int | str
    new_sizes: int | str
    fix: str | Sequence[str] | Mapping[str, int | Sequence[int]]
    fallback: str
    relaxed: str
    preference: str
    priority: str
    compilation_timeout: float | str | None
    execution_timeout: float | str | None
    cache_dir: _File
    receipt: _File
    intra_op_num_threads: int | str
    spinning: str
    settings: _File
    custom_ops_library: _File


class PrepareKeywords(OptionKeywords, total=False):
    """Those of `prepare`: `preparation.job.job_of` says what each of its own means."""

    optimization_level: str
    format: str
    target_platform: str | None
    optimization_style: str
    enable_type_reduction: bool | str
    embed: bool | str
    partial: bool | str


def changed(given: Mapping[str, object], **changes: Unpack[OptionKeywords]) -> OptionKeywords:
    """Returns the options with some of other values; `given` has the names of options only."""
    return cast(OptionKeywords, {**given, **changes})


def without(given: Mapping[str, object], *names: str) -> OptionKeywords:
    """Returns the options that have none of these names."""
    return cast(OptionKeywords, {k: v for k, v in given.items() if k not in names})
