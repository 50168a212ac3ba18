"""How Sphinx builds the documentation: ``python -m sphinx -W -b html docs build/docs``."""

import distq

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
