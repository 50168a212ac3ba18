"""Label selectors, as kubectl and the API server write them."""

import re
from collections.abc import Callable, Mapping

from distq.errors import ConfigError

Labels = Mapping[str, str]

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_KEY = rf"(?:(?=[^/]{{1,253}}/){_DOMAIN}(?:\.{_DOMAIN})*/)?{_NAME}"
_VALUE = rf"(?:{_NAME})?"
_A_KEY, _A_VALUE = re.compile(_KEY), re.compile(_VALUE)
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_EQUALS = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_NUMBER = re.compile(r"[0-9]{1,63}")
_GREATEST = 2**63 - 1
_COMPARES = re.compile(rf"({_KEY})\s*([<>])\s*({_NUMBER.pattern})")
_IN = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")


def label_selector(selector: str | Labels) -> Callable[[Labels], bool]:
    """Return the test that a selector means: a mapping of labels to values, or text as for kubectl.

    Text is ``app=web,tier!=cache,env in (a,b),!canary,size>2``; empty selects everything. ConfigError for
    text that is no selector, and for keys and values that no label has. Source: apimachinery labels.Parse.
    """
    if isinstance(selector, Mapping):
        wanted = dict(selector)
        for key, value in wanted.items():
            if not (_A_KEY.fullmatch(key) and _A_VALUE.fullmatch(value)):
                raise ConfigError(f'bad label selector: no label is "{key}={value}". Correct key or value.')
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
    if (match := _COMPARES.fullmatch(term)) and int(match[3]) <= _GREATEST:
        label, operator, bound = match.groups()
        return lambda labels: _compares(labels.get(label, ""), operator, int(bound))
    if match := _IN.fullmatch(term):
        label, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if not all(map(_A_VALUE.fullmatch, values)):
            return None
        if operator == "notin":
            return lambda labels: labels.get(label) not in values
        return lambda labels: labels.get(label) in values
    return None


def _compares(value: str, operator: str, bound: int) -> bool:
    """Return whether a label's value is a number of 64 bits, and more or less than the bound."""
    if not _NUMBER.fullmatch(value) or int(value) > _GREATEST:
        return False
    return int(value) > bound if operator == ">" else int(value) < bound
