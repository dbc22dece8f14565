"""Fast devices of the host runtime: NNAPI models as ONNX models on ONNX Runtime's providers."""
