"""Lowering: the operations of a cluster become one NNAPI model with its border."""
