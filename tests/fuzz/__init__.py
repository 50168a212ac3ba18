"""Feed everything that reads what others wrote with what nobody would write; ``python -m tests.fuzz``."""
