"""Quantization: QDQ groups, QLinear operators, quantization parameters of values."""
