"""NNAPI: models and their text form, validation and shape rules, and runtimes."""
