"""The drawings of the pages are compared with what they represent."""

import re
import tomllib
from typing import get_args

from distq.redisio import keys
from distq.redisio.queue_reads import State
from tests.docs.pages import ROOT
from tests.docs.reader import Reader, runs


@runs("kube-apiserver")
def the_flow_names_classes_and_keys(text: str, reader: Reader) -> None:
    """Find the classes and keys of the diagram in the code."""
    source = "\n".join(path.read_text() for path in (ROOT / "distq").rglob("*.py"))
    for name in ("Reflector", "Stream", "Inspector", "Dispatcher", "Request", "Result"):
        assert name in text
        assert re.search(rf"^class {name}\b", source, re.MULTILINE)
    (shown,) = re.findall(r"Redis: (.+)", text)
    assert set(shown.split(" · ")) <= set(re.findall(r"^    (\w+) ", keys.__doc__ or "", re.MULTILINE))


@runs("              claim")
def every_state_is_drawn(text: str, reader: Reader) -> None:
    """Find the states that the Inspector reports, and dirty."""
    for state in (*get_args(State), "dirty"):
        assert state in text


@runs("distq.cli")
def the_layers_are_the_contract(text: str, reader: Reader) -> None:
    """Compare it with import-linter's contract."""
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["name"] == "layers are one-way"]
    assert text.splitlines() == layers
