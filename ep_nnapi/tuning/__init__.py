"""Tuning: candidates of provider, level and options, measured in turn, and the best as settings."""
