"""``python -m distq`` is ``distq``."""

from distq.cli import main

main()
