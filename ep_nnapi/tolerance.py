"""How far outputs may be from the CPU provider's, relative to max(1, the largest value)."""

DEFAULT_TOLERANCE = 1e-4
"""Sums of float32 products in another order, through up to fifty layers."""

QUANTIZED_TOLERANCE = 0.05
"""A value that falls between two steps may go to either, which are 1/255 of a layer's range apart;
later layers add up what came before (four steps in a quantized MobileNetV2)."""
