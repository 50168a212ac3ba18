"""The path in the leading process from a line of a watch, or a period, to keys in a queue."""
