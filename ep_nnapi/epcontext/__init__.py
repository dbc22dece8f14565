"""EPContext: compiled clusters as containers inside ONNX models."""
