"""Each column of a table has its help, which every user can read."""

import pytest
from flask.testing import FlaskClient

from distq.dashboard.charts import TEMPLATES
from distq.workqueue.queue import Queue
from tests.dashboard.test_pages import every_page, read

COLUMNS = vars(TEMPLATES.get_template("distq/_columns.html").module)
TABLES = {name: found for name, found in COLUMNS.items() if isinstance(found, list) and name[0] != "_"}
EACH = {column["help"]: column["name"] for table in TABLES.values() for column in table}


def test_each_column_has_help(browser: FlaskClient, every_state: Queue) -> None:
    """Its head has it as a title, and as a description below the table."""
    seen = set()
    for path in every_page("foos", "ns/dead"):
        page = read(browser, path)
        texts = [text.strip() for text in page.texts]
        ids = {attributes.get("id") for _, attributes in page.tags}
        for tag, attributes in page.tags:
            is_head = tag == "th" and attributes.get("scope") == "col" and "title" in attributes
            if is_head:
                assert attributes["aria-describedby"] in ids, path
                assert attributes["title"] in texts, path
                seen.add(attributes["title"])
    assert seen >= {
        column["help"] for name in ("queues", "errors", "across", "found") for column in TABLES[name]
    }


def test_no_head_is_without_help(browser: FlaskClient, every_state: Queue) -> None:
    """In any list of items, workers or informers; tables behind pictures repeat what these show."""
    for path in every_page("foos", "ns/dead"):
        html = browser.get(path).text
        for table in html.split('<table class="rows')[1:]:
            head = table.partition("</thead>")[0]
            assert head.count("<th ") == head.count("title=") > 2, path


@pytest.mark.parametrize(("help_text", "name"), sorted(EACH.items()), ids=EACH.get)
def test_help_is_a_sentence(help_text: str, name: str) -> None:
    """It says more than the name, and is short enough for a tip."""
    assert help_text.endswith(".")
    assert len(name) < len(help_text) <= 90
