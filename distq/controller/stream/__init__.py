"""What the leading process runs: from a line of a watch, or a period, to keys in a queue."""
