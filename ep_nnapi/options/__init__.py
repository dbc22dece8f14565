"""Options: their table, values and target, and settings files."""
