"""NNAPI models as LiteRT flatbuffers (.tflite), written and run with the extra `litert`."""
