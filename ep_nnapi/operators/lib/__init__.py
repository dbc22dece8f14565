"""Lowering steps shared by several families of operators."""
