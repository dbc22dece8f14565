"""Rewriting of ONNX models to equal ones of which NNAPI takes more nodes: `fix`."""
