"""ONNX graphs: values, nodes, the DAG for the partitioner, and model files."""
