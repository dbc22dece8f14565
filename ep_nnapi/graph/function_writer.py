"""Functions of ONNX's operators that are written for one node: what they read, and their nodes.

No size is written into a function, as it may be a symbol: functions compute sizes, or have them as
constants among their inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode, NodeInputs
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen, immutable, replace

OUTPUTS = ("output", "present_key", "present_value")
"""Names of an attention's outputs."""
SWAP = [0, 2, 1, 3]
"""The permutation of rows and heads."""
_OPSET = 23  # the first with RotaryEmbedding


@frozen
class Body:
    """A function, and its call: the node with the inputs and outputs that the function has."""

    call: GraphNode
    function: FunctionProto


@immutable
class NodeReader(NodeInputs):
    """A node whose inputs and attributes are read by their place and name."""

    def number(self, name: str, default: float = 0) -> float:
        """An attribute that is a number."""
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, int | float) else default

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is an integer."""
        return int(self.number(name, default))

    def heads(self, name: str) -> int:
        """A number of heads; raises Reject unless it is positive."""
        found = self.integer(name)
        self.require(found > 0, Reason.ATTRIBUTE, f"{name} is {found}; it must be positive")
        return found

    def refuse(self, **inputs: int) -> None:
        """Raises Reject for each of these inputs, by name, that is given."""
        for name, index in inputs.items():
            self.require(not self.has(index), Reason.ATTRIBUTE, f"{name} is given; leave it out")

    def usual(self, **attributes: float | str) -> None:
        """Raises Reject for attributes with other values than these."""
        for name, usual in attributes.items():
            found = self.node.attributes.get(name, usual)
            detail = f"{name} is {found}; it must be {usual}"
            self.require(found == usual, Reason.ATTRIBUTE, detail)

    def refuse_output(self, index: int) -> None:
        """Raises Reject if output `index` is read."""
        read = any(self.node.outputs[index : index + 1])
        self.require(not read, Reason.ATTRIBUTE, f"output {index} is read; leave it out")

    def require_rank(self, index: int, *ranks: int) -> None:
        """Raises Reject unless input `index` has one of these ranks."""
        value, wanted = self.input(index), " or ".join(map(str, ranks))
        detail = (
            f"{value.name} has rank {value.rank}; it must be {wanted}, as packed it is not read"
        )
        self.require(value.rank in ranks, Reason.RANK, detail)

    def require_shape(self, index: int, *shapes: Sequence[int]) -> None:
        """Raises Reject unless input `index` has one of these shapes."""
        value, wanted = self.input(index), " or ".join(str(list(shape)) for shape in shapes)
        detail = f"{value.name} has shape {list(value.shape)}; it must be {wanted}"
        self.require(value.shape in map(tuple, shapes), Reason.SHAPE, detail)


@dataclass(slots=True)
class FunctionWriter:
    """The nodes of a function under construction; methods return names of values.

    inputs  names of the node's inputs
    more    further inputs: sizes
    """

    given: NodeReader
    inputs: list[str]
    nodes: list[NodeProto] = field(default_factory=list)
    more: list[Value] = field(default_factory=list)

    def __call__(
        self,
        op_type: str,
        *given: str,
        out: str = "",
        **attributes: int | Sequence[int] | TensorProto,
    ) -> str:
        """Add a node, and return the name of its output, which is `out` if given."""
        name = out or f"t{len(self.nodes)}"
        self.nodes.append(NodeProto(op_type=op_type, input=given, output=[name]))
        for key, value in attributes.items():
            self.nodes[-1].attribute.append(helper.make_attribute(key, value))
        return name

    def split(self, x: str, parts: Sequence[int], axis: int) -> list[str]:
        """Add a Split."""
        names = [f"t{len(self.nodes)}_{i}" for i in range(len(parts))]
        sizes = self.ints(*parts)
        self.nodes.append(helper.make_node("Split", [x, sizes], names, axis=axis))
        return names

    def ints(self, *numbers: int) -> str:
        """A constant vector of INT64."""
        return self.array(np.array(numbers, np.int64))

    def array(self, array: Array) -> str:
        """A constant."""
        return self("Constant", value=numpy_helper.from_array(array))

    def real(self, number: float) -> str:
        """A constant of the element type of the node's first input."""
        return self.array(np.array(number, self._real))

    @property
    def lowest(self) -> str:
        """The least number of that type, which hides what it is added to."""
        return self.real(float(np.finfo(self._real).min))

    @property
    def _real(self) -> type[np.float16 | np.float32]:
        return np.float16 if self.given.input(0).dtype is DType.FLOAT16 else np.float32

    def size(self, number: int, dtype: DType = DType.INT64) -> str:
        """A size as an input of the function: a constant [1]."""
        constant, name = Constant.of_sizes((number,), (1,), dtype), f"size{len(self.more)}"
        first = next(v.name for v in self.given.node.outputs if v is not None)
        self.more.append(Value.of(f"{first}/{name}", constant))
        return name

    def range(self, size: int) -> str:
        """The numbers 0, 1, 2 ... below a size, in INT32."""
        none, one = (self.array(np.array(i)) for i in (0, 1))
        return self(
            "Cast", self("Range", none, self("Squeeze", self.size(size)), one), to=TensorProto.INT32
        )

    def reshaped(self, x: str, *shape: int | str) -> str:
        """A Reshape; sizes are numbers, or names of tensors [1]."""
        if all(isinstance(size, int) for size in shape):
            return self("Reshape", x, self.ints(*shape))  # type: ignore[arg-type]
        parts = [size if isinstance(size, str) else self.ints(size) for size in shape]
        return self("Reshape", x, self("Concat", *parts, axis=0))

    def taken(self, x: str, source: str, perm: Sequence[int], batch: int, out: str) -> str:
        """Slices of x by indexes [B, n] for each entry of the batch, along the axis `perm[1]`.

        perm  the axes with that one behind the batch's; it is its own inverse
        """
        if batch == 1:
            return self("Gather", x, self.reshaped(source, -1), axis=perm[1], out=out)
        index = self("Cast", self("Unsqueeze", source, self.ints(2)), to=TensorProto.INT64)
        found = self("GatherND", self("Transpose", x, perm=perm), index, batch_dims=1)
        return self("Transpose", found, perm=perm, out=out)

    def to_heads(self, x: str, heads: int) -> str:
        """The heads of x [B, S, heads D], [B, heads, S, D]."""
        return self("Transpose", self.reshaped(x, 0, 0, heads, -1), perm=SWAP)

    def attended(self, q: str, k: str, v: str, scale: float, added: Sequence[str]) -> str:
        """The values v [B, N, T, D] that are chosen by the rows of q and k; `added` to scores."""
        softcap = self.given.number("softcap")
        turned = self("Transpose", k, perm=[0, 1, 3, 2])
        scores = self("MatMul", self("Mul", q, self.real(scale)), turned)
        if softcap:
            cap = self.real(softcap)
            scores = self("Mul", self("Tanh", self("Div", scores, cap)), cap)
        for each in added:
            scores = self("Add", scores, each)
        return self("MatMul", self("Softmax", scores, axis=-1), v)

    def merged(self, x: str) -> None:
        """The output: rows [B, S, N D] of x [B, N, S, D]."""
        self("Reshape", self("Transpose", x, perm=SWAP), self.ints(0, 0, -1), out=OUTPUTS[0])

    def body(self, outputs: Sequence[str] = OUTPUTS) -> Body:
        """The function of the nodes, with the first of the node's outputs."""
        node, known = self.given.node, len(self.inputs)
        sizes = [f"size{i}" for i in range(len(self.more))]
        opsets = [helper.make_opsetid("", _OPSET)]
        function = helper.make_function(
            MICROSOFT_DOMAIN, node.op_type, [*self.inputs, *sizes], outputs, self.nodes, opsets
        )
        given = (*node.inputs[:known], *[None] * (known - len(node.inputs)), *self.more)
        return Body(replace(node, inputs=given), function)
