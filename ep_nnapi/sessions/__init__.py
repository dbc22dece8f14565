"""ONNX Runtime sessions on the CPU provider, and libraries of custom operators."""
