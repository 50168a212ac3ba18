"""How Sphinx builds the documentation: ``python -m sphinx -W -b html docs build/docs``."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

import distq

NAMES = (Path(__file__).parent / "reference" / "names").glob("*.txt")
RELEASES = {
    path.stem: frozenset(path.read_text().split())
    for path in sorted(NAMES, key=lambda path: [int(number) for number in path.stem.split(".")])
}
"""The names on the page of the API, by release, oldest first (``python -m tests.docs.released_names``)."""

project = "distq"
version = release = distq.__version__
copyright = "the authors of distq"  # noqa: A001 - Sphinx's name

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3  # a link may name a heading, as on GitHub
nitpicky = False  # signatures name private types, which have no page

html_theme = "furo"
html_title = f"distq {version}"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"


def setup(app: Sphinx) -> None:
    """Show pictures by their twins for a dark background, too, before Sphinx collects the files."""
    app.connect("doctree-read", show_twins, priority=100)
    app.connect("autodoc-process-docstring", mark_new)


def mark_new(*event: Any) -> None:
    """Add to a docstring the version that added its name, unless the first release or its class had it."""
    _, _, name, _, _, lines = event
    since = since_version(name)
    if since not in (next(iter(RELEASES)), since_version(name.rpartition(".")[0])):
        lines += ["", f".. versionadded:: {since}", ""]


def since_version(name: str) -> str:
    """Return the first release that has the name; the version at hand if none has."""
    return next((release for release, names in RELEASES.items() if name in names), version)


def show_twins(app: Sphinx, page: nodes.document) -> None:
    """Put the dark twin behind each picture that has one; furo hides one of the two by these classes."""
    here = Path(app.env.doc2path(app.env.docname)).parent
    for light in list(page.findall(nodes.image)):
        path = Path(light["uri"])
        twin = path.with_stem(f"{path.stem}-dark")
        if (here / twin).exists():
            dark = light.deepcopy()
            dark["uri"], dark["classes"] = twin.as_posix(), ["only-dark"]
            light["classes"] = ["only-light"]
            light.parent.insert(light.parent.index(light) + 1, dark)
