"""Capability: which nodes NNAPI can take, and why it cannot take the others."""
