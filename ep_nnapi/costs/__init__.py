"""Costs: the work of nodes, cost models and measured calibrations."""
