"""Metadata of PyTorch's exporter, as it writes them."""

import pytest

from ep_nnapi.graph.exporter_origin import Origin, origin, origin_of_metadata

STACK = (
    'File "/home/me/net.py", line 12, in forward\n    return self.block(x)\n'
    '  File "/env/lib/python3.11/site-packages/torch/nn/modules/container.py", line 253, in forward'
    "\n    input = module(input)\n"
    '  File "/home/me/block.py", line 7, in forward\n    return F.relu(x)\n'
    '  File "/env/lib/python3.11/site-packages/torch/nn/functional.py", line 1700, in relu\n'
)
SCOPES = "['', 'block', 'block.0', 'relu']"


def test_the_innermost_module_and_own_line():
    metadata = {"pkg.torch.onnx.name_scopes": SCOPES, "pkg.torch.onnx.stack_trace": STACK}
    found = origin_of_metadata(metadata)
    assert found == Origin("block.0", "/home/me/block.py:7")
    assert found.clause == " in block.0 at /home/me/block.py:7"
    assert found.remark == " (in block.0 at /home/me/block.py:7)"


def test_frames_of_packages_only():
    """A network of an installed package has no own line: the innermost of the package's."""
    frames = [f"  File {frame}" for frame in STACK.split("File ")[1:]]
    assert origin("", frames[1]).line.endswith("container.py:253")


@pytest.mark.parametrize(
    "scopes", ["", "[", "'x'", "['relu']", "['', 'relu']", "['_empty_nn_module_stack_x', 'relu']"]
)
def test_no_module(scopes: str):
    found = origin_of_metadata({"pkg.torch.onnx.name_scopes": scopes})
    assert (found, found.clause, found.remark) == (Origin(), "", "")
