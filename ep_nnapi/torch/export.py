"""Conversion of PyTorch modules to ONNX, by torch.export and PyTorch's ONNX exporter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import walk_tb

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import TreeSpec

from ep_nnapi.errors import SourceLine
from ep_nnapi.graph.onnx_io import EXTERNAL_DATA_THRESHOLD
from ep_nnapi.graph.source_lines import source_line
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.torch.structure import Leaf, Results, flatten, leaves_of

_ROOT = re.compile(r"^L\['\w+'\]\.?")  # as Dynamo calls the module that it compiles

_FUSED_ATTENTION = "call torch.backends.mha.set_fastpath_enabled(False) before"
_ADVICE = {
    "aten._transformer_encoder_layer_fwd.default": _FUSED_ATTENTION,
    "aten._native_multi_head_attention.default": _FUSED_ATTENTION,
}
"""What can be done about operators that PyTorch's exporter does not know."""
_BY_VALUES = "; choose by torch.where or torch.cond what depends on values of tensors"


class ResultRecorder:
    """A forward hook that makes a module return its tensors as a tuple, and notes the structure."""

    def __init__(self) -> None:
        self._found: tuple[TreeSpec, tuple[Leaf, ...]] | None = None

    def __call__(
        self, module: torch.nn.Module, args: object, output: object
    ) -> tuple[torch.Tensor, ...]:
        """Returns the tensors of `output`."""
        values, spec = flatten(output)
        leaves, tensors = leaves_of(values, "the results of the module")
        self._found = spec, leaves
        return tuple(map(_as_tensor, tensors))

    @property
    def results(self) -> Results:
        """The structure of what the module returned when it was last called."""
        if self._found is None:
            raise ModelError("torch.export did not call the module")
        return Results(*self._found)


class _Wrapper(torch.nn.Module):
    """A module with the arguments and results of another one."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

        @wraps(module.forward)  # torch.export binds arguments by this signature
        def forward(*args: object, **kwargs: object) -> object:
            return module(*args, **kwargs)

        self.forward = forward


def _as_tensor(value: object) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    return torch.scalar_tensor(value, dtype=torch.int64)


def traced(
    module: torch.nn.Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
) -> tuple[torch.export.ExportedProgram, Results]:
    """Returns a module's program, which returns a tuple of tensors, and its results' structure.

    Raises ModelError if torch.export cannot trace the module.
    """
    recorder = ResultRecorder()
    if isinstance(module, torch.fx.GraphModule):  # torch.export runs these without their hooks
        module = _Wrapper(module)
    hook = module.register_forward_hook(recorder)
    try:
        with torch.no_grad():
            exported = torch.export.export(
                module, tuple(args), dict(kwargs), dynamic_shapes=dynamic_shapes, strict=False
            )
    except ModelError:
        raise
    except Exception as error:  # any type: the module's own code runs here
        said, _, user_code = str(error).partition("The following call raised this error:")
        where = _clause(source_line("", user_code))
        advice = _BY_VALUES if isinstance(error, GuardOnDataDependentSymNode) else ""
        raise ModelError(
            f"torch.export cannot trace the module{where}: {_first(said)}{advice}"
        ) from error
    finally:
        hook.remove()
    return exported, recorder.results


def to_onnx(exported: torch.export.ExportedProgram) -> torch.onnx.ONNXProgram:
    """Returns the program as an ONNX model; raises ModelError with the culprit if it cannot be.

    Only what computes without training can be: no dropout, and no buffers that change.
    """
    _require_inference(exported)
    _require_contiguous(exported)
    try:
        with torch.no_grad():
            program = torch.onnx.export(exported, dynamo=True, verbose=False)
    except torch.onnx.OnnxExporterError as error:
        raise ModelError(_unconverted(error)) from error
    if program is None:
        raise ModelError("torch.onnx.export returned no model")
    _require_no_mutation(program.exported_program)
    return program


@contextmanager
def model_of(program: torch.onnx.ONNXProgram) -> Iterator[str | bytes]:
    """Yields the model's bytes, or the path of a temporary file if it is large."""
    if _weight_bytes(program) <= EXTERNAL_DATA_THRESHOLD:
        yield program.model_proto.SerializeToString()
        return
    with TemporaryDirectory(prefix="ep-nnapi-") as folder:
        model = Path(folder, "model.onnx")
        write(program, model)
        yield str(model)


def write(program: torch.onnx.ONNXProgram, path: Path) -> None:
    """Writes the model, with weights in a file beside it if they are large."""
    program.save(path, external_data=_weight_bytes(program) > EXTERNAL_DATA_THRESHOLD)


def _weight_bytes(program: torch.onnx.ONNXProgram) -> int:
    values = program.model.graph.initializers.values()
    return sum(v.const_value.nbytes for v in values if v.const_value is not None)


def _require_inference(exported: torch.export.ExportedProgram) -> None:
    for node in exported.graph.nodes:
        training = node.target is torch.ops.aten.dropout.default and node.args[2]
        if training or (node.target is torch.ops.aten.batch_norm.default and node.args[5]):
            raise ModelError(
                f"the module is in training mode ({str(node.target).split('.')[1]}"
                f"{_clause(line_of(node))}); call its eval() first"
            )


def reads_memory(exported: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    """Yields the nodes that read by strides: as_strided, branches of `torch.cond` included."""
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.find_nodes(
                op="call_function", target=torch.ops.aten.as_strided.default
            )


def _require_contiguous(exported: torch.export.ExportedProgram) -> None:
    """Raises ModelError where as_strided reads what depends on the strides of its tensor."""
    for node in reads_memory(exported):
        tensor, size, stride, *offset = node.args
        read = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        given = tensor.meta["val"]
        if offset or not given.is_contiguous() or read > given.numel():
            raise ModelError(
                f"as_strided{_clause(line_of(node))} needs a contiguous tensor, no storage_offset "
                "and only the tensor's own elements; index or unfold the tensor instead"
            )


def _require_no_mutation(exported: torch.export.ExportedProgram) -> None:
    """Raises ModelError if the module changes a buffer or an input."""
    kinds = torch.export.graph_signature.OutputKind
    for spec in exported.graph_signature.output_specs:
        if spec.kind is not kinds.USER_OUTPUT:
            raise ModelError(
                f"the module changes {spec.target or spec.arg.name} when it runs, "
                "which a model cannot; return the new value instead"
            )


def _unconverted(error: BaseException) -> str:
    """Returns one sentence on an error of the ONNX exporter: operator, module, line, reason."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    why = _said(chain[-1]).partition(". Failure message")[0]
    if why.startswith("No ONNX function found"):
        why = "it has no ONNX function for it"
    nodes = [node for one in chain for node in _nodes_of(one)]
    if not nodes:
        return f"torch.onnx cannot convert the module: {why}"
    target = str(nodes[-1].target)
    said = f"torch.onnx cannot convert {target}{_clause(line_of(nodes[-1]))}: {why}"
    return said + ("; " + _ADVICE[target] if target in _ADVICE else "")


def _nodes_of(error: BaseException) -> list[torch.fx.Node]:
    """Returns the nodes that the exporter was at, which only its frames know."""
    frames = [frame.f_locals for frame, _ in walk_tb(error.__traceback__)]
    found = [names.get("node") for names in frames]
    return [node for node in found if isinstance(node, torch.fx.Node)]


def line_of(node: torch.fx.Node) -> SourceLine | None:
    """Returns the module and the source line that a node of a traced graph comes from."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [_ROOT.sub("", str(name)) for name, _ in stack.values()]
    return source_line(path[-1] if path else "", str(node.meta.get("stack_trace") or ""))


def _clause(line: SourceLine | None) -> str:
    return line.clause if line is not None else ""


def _said(error: BaseException) -> str:
    """Returns the first line of an error's message, or its type if it has none."""
    return _first(str(error)) or type(error).__name__


def _first(text: str) -> str:
    return next(iter(text.strip().splitlines()), "").rstrip(".")
