"""ONNX Runtime sessions on the CPU provider, and custom operator libraries."""
