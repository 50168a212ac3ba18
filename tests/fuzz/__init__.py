"""Feed all readers of others' data with data that no program would write; ``python -m tests.fuzz``."""
