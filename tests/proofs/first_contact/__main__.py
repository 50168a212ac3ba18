"""Runs the tests of the first contact and prints what a user does and sees, a row each.

Exit status 0 only if each row was seen to be right. What pytest prints goes to stderr; options of pytest
may follow.
"""

import contextlib
import sys

import pytest

from tests.proofs.first_contact.rows import Results, collect, files, lines, outcomes, wrong


def main() -> int:
    """Run, print, and return the exit status."""
    results = Results()
    with contextlib.redirect_stdout(sys.stderr):
        tests = collect()
        pytest.main(["-m", "first_contact", *sys.argv[1:], *files()], [results])
    found = outcomes(tests, results)
    for text in lines(tests, found):
        print(text)  # noqa: T201
    return 1 if wrong(tests, found) else 0


if __name__ == "__main__":
    sys.exit(main())
