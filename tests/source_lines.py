"""Metadata of nodes as PyTorch's exporter records it."""

import onnx


def recorded(model: onnx.ModelProto, module: str, file: str) -> onnx.ModelProto:
    """The model, with the entries that torch.onnx.export(dynamo=True) gives to nodes.

    The innermost frame is PyTorch's own, as in a real stack trace.
    """
    site = "/usr/lib/python3/site-packages/torch/nn/modules"
    stack = (
        f'File "{file}", line 20, in forward\n    x = self.layers(x)\n'
        f'  File "{site}/container.py", line 253, in forward\n    input = module(input)\n'
        f'  File "{file}", line 12, in forward\n    y = self.act(self.conv(x))\n'
        f'  File "{site}/conv.py", line 565, in forward\n    return self._conv_forward(input)'
    )
    for node in model.graph.node:
        scopes = ["", module.partition(".")[0], module, node.name]
        add(node, "namespace", f": __main__.Net/{module}: __main__.Block/op: aten.op")
        add(node, "pkg.torch.onnx.name_scopes", repr(scopes))
        add(node, "pkg.torch.onnx.stack_trace", stack)
    return model


def add(node: onnx.NodeProto, key: str, value: str) -> None:
    entry = node.metadata_props.add()
    entry.key, entry.value = key, value
