"""Public names stay from release to release, and the page of the API says since when a name is there."""

import re

import pytest

from tests import ROOT
from tests.docs.released_names import FOLDER, names

RELEASES = sorted(FOLDER.glob("*.txt"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
REMOVED = {
    name
    for part in re.findall(r"^### Removed\n(.*?)(?=^##)", CHANGELOG, re.MULTILINE | re.DOTALL)
    for name in re.findall(r"^- `([\w.]+)`", part, re.MULTILINE)
}
"""The names with which the entries under *Removed* begin."""


@pytest.mark.parametrize("release", [path.stem for path in RELEASES])
def test_a_public_name_stays_or_the_changelog_lists_its_removal(release: str) -> None:
    """A user who upgrades finds each name that code may use, or an entry that begins with it."""
    gone = set((FOLDER / f"{release}.txt").read_text().split()) - names()
    assert {name for name in gone if name.removeprefix("distq.") not in REMOVED} == set()
