"""ONNX graphs: values, nodes, the DAG for the partitioner, model files."""
