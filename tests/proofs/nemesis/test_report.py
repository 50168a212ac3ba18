"""The table of the documentation has a row for each fault, in the words of the code."""

from pathlib import Path

from tests.docs.pages import table
from tests.proofs.nemesis.catalogue import faults
from tests.proofs.nemesis.redelivery import Redelivery
from tests.proofs.nemesis.report import HEADER, PAGE, Row, write_table

MEASURED = Redelivery(kills=200, lost=0, p50=3.0, p99=3.9, longest=4.0)


def test_the_documentation_describes_each_fault() -> None:
    """Its name, action and requirement, in order; none that does not exist."""
    rows = table("fault", "what is done", "required")
    assert [row[:3] for row in rows] == [[fault.name, fault.what, fault.required] for fault in faults()]


def test_a_run_writes_its_figures_and_leaves_the_others(tmp_path: Path) -> None:
    """Of the faults that it ran, with the circumstances; a second one writes over the first."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    before = page.read_text().count("\n")
    first, second = faults()[:2]
    for lost in (3, 4):
        row = Row(
            first.name, first.what, first.required, "redis6", "real", adds=9, lost=lost, overlap=0.5, calls=70
        )
        write_table([row], MEASURED, 6.0, page)
    written = page.read_text()
    assert (
        f"| {first.name} | {first.what} | {first.required} | redis6 | 4 | 0 | 500 ms | 0.0 s | 70 calls |"
        in written
    )
    assert f"\n| {second.name} | {second.what} |" in written
    assert "claims of 6 s." in written
    assert "99th percentile" in written
    assert written.count(HEADER) == 1
    assert written.count("\n") == before


def test_a_redelivery_is_judged_by_its_99th_percentile() -> None:
    """And by whether nothing was lost."""
    assert MEASURED.passed
    assert not Redelivery(kills=200, lost=1, p50=3.0, p99=3.9, longest=4.0).passed
    assert not Redelivery(kills=200, lost=0, p50=3.0, p99=4.6, longest=4.7).passed
