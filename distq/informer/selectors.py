"""Label selectors, as kubectl and the API server write them."""

import re
from collections.abc import Callable, Mapping

from distq.errors import ConfigError

Labels = Mapping[str, str]

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_EXISTS = re.compile(rf"(!?)\s*({_LABEL})")
_EQUALS = re.compile(rf"({_LABEL})\s*(==|=|!=)\s*((?:{_LABEL})?)")
_INTEGER = r"-?[0-9]{1,19}"  # of 64 bits
_NUMBER = re.compile(_INTEGER)
_COMPARES = re.compile(rf"({_LABEL})\s*([<>])\s*({_INTEGER})")
_IN = re.compile(rf"({_LABEL})\s+(in|notin)\s*\(([^()]+)\)")


def label_selector(selector: str | Labels) -> Callable[[Labels], bool]:
    """Return the test that a selector stands for: a mapping of labels to values, or text as for kubectl.

    Text is ``app=web,tier!=cache,env in (a,b),!canary,size>2``; empty selects everything. Raises ConfigError
    for text that is no selector. Source: apimachinery labels.Parse.
    """
    if isinstance(selector, Mapping):
        wanted = dict(selector)
        return lambda labels: wanted.items() <= labels.items()
    requirements = []
    for term in _terms(selector):
        requirement = _requirement(term)
        if requirement is None:
            raise ConfigError(
                f'bad label selector "{selector}": "{term}" is no requirement. '
                "Use app=web, app!=web, app in (a,b), app, !app or size>2, and commas between."
            )
        requirements.append(requirement)
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _terms(selector: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    return [term.strip() for term in re.split(r",(?![^(]*\))", selector)] if selector.strip() else []


def _requirement(term: str) -> Callable[[Labels], bool] | None:
    if match := _EXISTS.fullmatch(term):
        absent, label = match.groups()
        return lambda labels: (label in labels) is not bool(absent)
    if match := _EQUALS.fullmatch(term):
        label, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(label) != value
        return lambda labels: labels.get(label) == value
    if match := _COMPARES.fullmatch(term):
        label, operator, bound = match.groups()
        return lambda labels: _compares(labels.get(label, ""), operator, int(bound))
    if match := _IN.fullmatch(term):
        label, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "notin":
            return lambda labels: labels.get(label) not in values
        return lambda labels: labels.get(label) in values
    return None


def _compares(value: str, operator: str, bound: int) -> bool:
    """Return whether a label's value is a number, and more or less than the bound."""
    if not _NUMBER.fullmatch(value):
        return False
    return int(value) > bound if operator == ">" else int(value) < bound
