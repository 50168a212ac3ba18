"""Go programs that tests run beside ours; ``python -m tests.go`` builds them, once."""
