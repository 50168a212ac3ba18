"""Prints which test covers which promise of client-go and controller-runtime, and on which servers.

Exit status 0 only if every id is covered on each server that its row names.
"""

import sys

import click
import pytest

from tests.proofs.conformance.coverage import (
    TESTS,
    Coverage,
    collect,
    line,
    record,
    summary,
    uncovered,
    unknown,
)
from tests.proofs.conformance.promises import load


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One object a line; all else goes to stderr.")
@click.option("--run", is_flag=True, help="Run the covering tests first.")
def main(*, as_json: bool, run: bool) -> None:
    """Print one row an id: its rule, the servers, the tests. Exit with 1 if an id is not covered."""
    failed = run and pytest.main(["-m", "conformance", str(TESTS)]) != pytest.ExitCode.OK
    rows, coverage = load(), collect()
    for row in rows.values():
        click.echo((record if as_json else line)(row, coverage.get(row.id, Coverage())))
    for text in ("", *summary(rows, coverage), f"uncovered: {len(uncovered(rows, coverage))}"):
        click.echo(text, err=as_json)
    sys.exit(1 if failed or unknown(rows, coverage) or uncovered(rows, coverage) else 0)


if __name__ == "__main__":
    main()
