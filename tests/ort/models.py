"""Small ONNX models in a few words."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

Shape = Sequence[int | str | None] | None

IR_VERSION = 10  # every onnxruntime from 1.25 on reads it
OPSET = 17


def tensor(name: str, shape: Shape = (2, 3), dtype: type = np.float32) -> ValueInfoProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, code, shape)


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    """A node; `inputs` and `outputs` are names separated by blanks, "-" an omitted one."""
    named = [[n if n != "-" else "" for n in names.split()] for names in (inputs, outputs)]
    return helper.make_node(op_type, *named, **attributes)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    constants: Mapping[str, np.ndarray] | None = None,
    name: str = "g",
) -> GraphProto:
    tensors = [numpy_helper.from_array(array, n) for n, array in (constants or {}).items()]
    return helper.make_graph(nodes, name, inputs, outputs, tensors)


def model(*arguments: object, opset: int = OPSET, **keywords: object) -> bytes:
    """The serialized and checked model of `graph(...)`."""
    return finish(graph(*arguments, **keywords), opset)


def finish(
    main: GraphProto, opset: int = OPSET, functions: Sequence[onnx.FunctionProto] = ()
) -> bytes:
    domains = {"": opset} | {f.domain: 1 for f in functions}
    proto: ModelProto = helper.make_model(
        main,
        opset_imports=[helper.make_opsetid(d, v) for d, v in domains.items()],
        functions=functions,
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(proto)
    return proto.SerializeToString()


def abs_add(shape: Shape = (2, 3), dtype: type = np.float32) -> bytes:
    """y = |x| + x, two nodes in a row."""
    return model(
        [node("Abs", "x", "a", name="abs"), node("Add", "a x", "y", name="add")],
        [tensor("x", shape, dtype)],
        [tensor("y", shape, dtype)],
    )


def if_abs_add() -> bytes:
    """y = |x| + x if c, else x + x: a main graph and two inner ones."""
    then = graph(
        [node("Abs", "x", "a", name="abs"), node("Add", "a x", "t", name="add")], [], [tensor("t")]
    )
    other = graph([node("Add", "x x", "e", name="twice")], [], [tensor("e")])
    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, ())
    chosen = node("If", "c", "y", name="if", then_branch=then, else_branch=other)
    return model([chosen], [condition, tensor("x")], [tensor("y")])
