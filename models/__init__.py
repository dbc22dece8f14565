"""The networks that ship with the project: `digits.onnx`, and the zoo that builds the others."""
