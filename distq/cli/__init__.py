"""The command line. Only what a command needs is imported, and only when it runs."""

from distq.cli.program import main, run_program

__all__ = ["main", "run_program"]
