"""``python -m distq`` is ``distq``."""

from distq.cli import run_program

run_program()
