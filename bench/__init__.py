"""Benchmarks: what things cost, printed."""
