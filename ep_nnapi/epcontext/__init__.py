"""EPContext nodes: compiled clusters stored as containers in ONNX models."""
