"""Execution provider of one session: planning, compilation, execution and fallback."""
