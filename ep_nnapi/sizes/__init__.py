"""Shapes of tensors: shape inference, symbolic dimensions, data-dependent shapes."""
