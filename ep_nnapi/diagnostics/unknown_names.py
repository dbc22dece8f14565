"""Validation of names in options against a model; unknown names would have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ep_nnapi.nnapi.errors import OptionError, suggestion
from ep_nnapi.options.table import Options
from ep_nnapi.report.report import Report


def check_excluded(options: Options, report: Report) -> None:
    """Raises OptionError if `exclude` or `partitioning_stop_ops` has an unknown name.

    Node names must exist in the model as ONNX Runtime presents it. Operator types need only be
    known to ONNX Runtime, since the same options may be used with many models.
    """
    nodes = {name for c in report.clusters for name in c.nodes}
    nodes.update(r.node for r in report.rejections)
    types = {r.op_type for r in report.rejections}
    for name in _unknown_names(options.exclude, nodes | types):
        raise OptionError(
            f"exclude names {name}, no operator type and no node that ONNX Runtime shows of this "
            f"model{suggestion(name, (*nodes, *_operator_types()))}"
        )
    for name in _unknown_names(options.partitioning_stop_ops, types):
        near = suggestion(name, _operator_types())
        raise OptionError(f"partitioning_stop_ops names {name}, no operator type{near}")


def _unknown_names(given: Sequence[str], known: set[str]) -> Iterable[str]:
    unknown = [name for name in given if name not in known]
    if not unknown:  # common case, which needs no list of all operators
        return ()
    types = _operator_types()
    return (name for name in unknown if name not in types)


def _operator_types() -> frozenset[str]:
    """Returns all operator types of ONNX Runtime, including contrib operators."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset(schema.name for schema in get_all_operator_schema())
