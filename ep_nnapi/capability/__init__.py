"""Capability analysis: nodes that NNAPI can run, and rejections with reasons of the others."""
