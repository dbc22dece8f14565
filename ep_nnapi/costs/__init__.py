"""Cost estimates: work of nodes, cost models and measured calibrations."""
