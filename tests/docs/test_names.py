"""The links of the pages lead somewhere, and what their text names exists."""

import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import distq
from distq.cli.program import main
from distq.config import Settings
from tests.docs.pages import PAGES, ROOT, Page


def test_a_link_leads_to_its_target() -> None:
    """The file is there, and holds the heading, or the test, that the link names."""
    links = [(page, text, target) for page in PAGES for text, target in page.links if "://" not in target]
    assert links
    assert [link for link in links if not leads(*link)] == []


def leads(page: Page, text: str, target: str) -> bool:
    """Return whether a link leads to what it names; Sphinx finds no folder."""
    name, _, heading = target.partition("#")
    path = page.path.parent / name if name else page.path
    if not path.is_file():
        return path.is_dir() and not page.path.is_relative_to(ROOT / "docs") and not heading
    if heading and heading not in headings(path):
        return False
    return not text.startswith("test_") or f"def {text}(" in source(path)


@cache
def source(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text()


@cache
def headings(path: Path) -> set[str]:
    """Return what links call the headings of a page."""
    return {anchor(line) for line in re.findall(r"^#+ (.+)$", source(path), re.MULTILINE)}


def anchor(heading: str) -> str:
    """Return what a link calls a heading, as GitHub and MyST do."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_a_picture_is_there_in_light_and_dark_and_said_in_words() -> None:
    """Each has a twin for the other background, 64 KB at most, and a text for readers who do not see it."""
    for page in PAGES:
        shown = re.findall(r"!\[(.+?)\]\((\S+?)\)", page.prose)
        for dark, light, text in re.findall(r'srcset="(\S+)">\s*<img src="(\S+)" alt="(.+)">', page.prose):
            assert dark == light.replace(".", "-dark."), page
            shown.append((text, light))
        assert len(shown) == page.prose.count("![") + page.prose.count("<img"), page
        for _, name in shown:
            light = page.path.parent / name
            for picture in (light, light.with_stem(f"{light.stem}-dark")):
                assert 0 < picture.stat().st_size <= 64_000, picture


def test_paths_and_commands_in_the_text_exist() -> None:
    """A text that looks like a path or a command of distq is one."""
    for page in PAGES:
        for path in re.findall(r"`((?:distq|examples|tests|workers|lua)/[\w/.]+)`", page.prose):
            assert any((base / path).exists() for base in (ROOT, ROOT / "distq" / "redisio")), (page, path)
        for command in re.findall(r"`distq (\w+)", page.prose):
            assert command in main.commands, (page, command)


def test_dotted_names_in_the_text_exist() -> None:
    """A text that looks like a module of distq, or like a name in one, exists."""
    for page in PAGES:
        for name in re.findall(r"`(distq(?:\.\w+)+)\b(?!/)", page.prose):
            resolve_name(name)  # raises where there is none


def test_public_names_in_the_text_exist() -> None:
    """The names that the pages call client-go's are there."""
    from distq import informer, workqueue

    (page,) = [page for page in PAGES if page.name == "docs/coming-from/client-go.md"]
    same = page.prose[page.prose.index("In Python's spelling") :].partition("\n\n")[0]
    of_client_go, _, of_controller_runtime = same.partition("From controller-runtime")
    assert of_controller_runtime
    for name in re.findall(r"`(\w+)`", of_client_go):
        homes = (distq.Queue, workqueue, Settings, informer)
        known = name in {"distq", "informer", "LeaderElector"}
        assert known or any(hasattr(home, name) for home in homes), name
    for name in re.findall(r"`(\w+)`", of_controller_runtime):
        assert hasattr(distq, name), name


def test_the_readme_is_short() -> None:
    """It has at most 110 lines, and links to the list of all pages."""
    readme = PAGES[0]
    assert len(readme.text.splitlines()) <= 110
    assert "docs/index.md" in {target for _, target in readme.links}


def test_the_readme_and_the_index_link_to_each_page() -> None:
    """A page of ``docs/`` is in the table of its index, any other page in the README."""
    (index,) = [page for page in PAGES if page.name == "docs/index.md"]
    for page in (one for one in PAGES[1:] if one is not index):
        first = index if page.name.startswith("docs/") else PAGES[0]
        assert page.path in {(first.path.parent / target).resolve() for _, target in first.links}, page
