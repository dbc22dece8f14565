"""The execution provider of one session: planning, compilation, execution, fallback."""
