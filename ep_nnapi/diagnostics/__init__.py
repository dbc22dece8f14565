"""Diagnostics: check, run, compare and calibrate."""
