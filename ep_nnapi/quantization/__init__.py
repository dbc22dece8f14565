"""Quantization: QDQ groups, QLinear operators, parameters of every value."""
