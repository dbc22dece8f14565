"""A PyTorch module as an ONNX model: checked, and written for `ep-nnapi run` and `prepare`.

python examples/torch_export.py build/mobilenet.onnx
"""

import sys

import torch
from torch_nnapi import SmallMobileNetV2

import ep_nnapi


def main(path: str) -> None:
    """Exports with fixed sizes, says how many nodes NNAPI takes, and writes the file."""
    torch.manual_seed(0)
    model, image = SmallMobileNetV2().eval(), torch.randn(1, 3, 64, 64)
    names = {"input_names": ["image"], "output_names": ["scores"]}
    program = torch.onnx.export(model, (image,), **names, verbose=False)
    report = ep_nnapi.check(program, target="builtin-nnapi")
    print(f"NNAPI takes {report.taken} of {report.nodes} nodes")
    program.save(path)


if __name__ == "__main__":
    main(sys.argv[1])
