"""Lowering of a cluster's operations to one NNAPI model and its border."""
