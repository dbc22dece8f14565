"""Offline preparation: optimize, compile, verify and write models."""
