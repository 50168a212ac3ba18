"""A reader of the pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from distq.testing import Sandbox
from tests.cli.program import ImportedProgram
from tests.docs.reader import Reader, write_files


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files that the pages show, as a reader would, into an empty directory."""
    folder = tmp_path_factory.mktemp("newcomer")
    write_files(folder)
    return folder


@pytest.fixture(scope="package")
def reader(folder: Path) -> Iterator[Reader]:
    """Give someone who follows the pages, in what ``distq sandbox --manifest foos.yaml`` starts."""
    with Sandbox(manifests=[folder / "foos.yaml"]) as sandbox, ImportedProgram() as program:
        yield Reader(folder, sandbox, program)
