"""Offline preparation: models optimized, compiled, verified and written."""
