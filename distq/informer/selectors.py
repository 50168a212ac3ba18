"""Label selectors, as kubectl and the API server write them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from distq.dns1123 import DNS1123_SUBDOMAIN
from distq.errors import ConfigError

Labels = Mapping[str, str]

FEW_PAIRS = 50
"""Labels of one requirement that are looked up in an index; of more, a look at all objects is as good."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{DNS1123_SUBDOMAIN.pattern}/)?{_NAME}"
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
    what is no selector, and for keys and values that no label has. Source: apimachinery labels.Parse.
    """
    if isinstance(selector, Mapping):
        wanted = dict(selector)
        for key, value in wanted.items():
            if not (_is(_A_KEY, key) and _is(_A_VALUE, value)):
                raise _no_label(key, value)
        return lambda labels: wanted.items() <= labels.items()
    if not isinstance(selector, str):
        raise ConfigError(f"bad label selector {selector!r:.80}. Give text, or a mapping of labels.")
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


def require_selectors(resource: str, labels: Any, fields: Any) -> None:
    """Raise ConfigError for selectors that are no text, or no label selector: no API server reads them."""
    for name, selector, example in (("label", labels, "app=web"), ("field", fields, "metadata.name=web")):
        if not isinstance(selector, str):
            raise ConfigError(
                f"bad {name}_selector of {resource}: {selector!r:.80}. Give a text, such as {example}."
            )
    label_selector(labels)


def label_pairs(selector: str | Labels) -> Sequence[str]:
    """Return a few labels, each as ``key=value``, one of which all have that a good selector selects.

    Of several requirements it takes the first with the fewest values. [] where there is none.
    """
    if isinstance(selector, Mapping):
        required = [[f"{key}={value}"] for key, value in selector.items()]
    else:
        required = [pairs for term in _terms(selector or "") if (pairs := _pairs_of(term))]
    few = [pairs for pairs in required if len(pairs) <= FEW_PAIRS]
    return min(few, key=len, default=[])


def _pairs_of(term: str) -> list[str]:
    if (match := _EQUALS.fullmatch(term)) and match[2] != "!=":
        return [f"{match[1]}={match[3]}"]
    if (match := _IN.fullmatch(term)) and match[2] == "in":
        return [f"{match[1]}={value}" for value in _listed(match[3])]
    return []


def matches(selector: Mapping[str, Any] | None, labels: Labels | None) -> bool:
    """Return whether labels match a selector as objects have it: ``matchLabels`` and ``matchExpressions``.

    None matches nothing, an empty selector everything; labels that are None are none. ConfigError for any
    other field, an unknown operator, values that do not fit it, and keys and values that no label has.
    Source: apimachinery metav1.LabelSelectorAsSelector.
    """
    if selector is None:
        return False
    wanted = list(_wanted(selector))  # all of it is checked, whatever the labels are
    return all(_is_met(each, labels or {}) for each in wanted)


_Wanted = tuple[str, str, list[str]]
"""A key, an operator, and its values."""

_OF_VALUES, _OF_KEYS = ("In", "NotIn"), ("Exists", "DoesNotExist")


def _wanted(selector: object) -> Iterator[_Wanted]:
    """Yield the requirements of a selector; raise ConfigError for the first that is none."""
    if not isinstance(selector, Mapping) or selector.keys() - {"matchLabels", "matchExpressions"}:
        raise ConfigError(f"bad label selector {selector!r:.80}. Use matchLabels and matchExpressions alone.")
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ConfigError(f"bad label selector {selector!r:.80}. Use an object of matchLabels, and a list.")
    for key, value in labels.items():
        yield _requirement_of({"key": key, "operator": "In", "values": [value]})
    for each in expressions:
        yield _requirement_of(each)


def _requirement_of(expression: object) -> _Wanted:
    """Return one of ``matchExpressions``. Source: apimachinery labels.NewRequirement."""
    if not isinstance(expression, Mapping) or not isinstance(expression.get("values") or [], list):
        raise ConfigError(f"bad label selector {expression!r:.80}. Give key, operator and a list of values.")
    key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or []
    if not isinstance(key, str) or not isinstance(operator, str) or operator not in (*_OF_VALUES, *_OF_KEYS):
        use = ", ".join([*_OF_VALUES, *_OF_KEYS])
        raise ConfigError(f"bad label selector: no operator {operator!r:.80} of {key!r:.80}. Use {use}.")
    if bool(values) is (operator in _OF_KEYS):
        remedy = "Leave out its values" if values else "Give values"
        raise ConfigError(f"bad label selector: {operator} of {key!r:.80}. {remedy}.")
    for value in values or [""]:
        if not (_is(_A_KEY, key) and _is(_A_VALUE, value)):
            raise _no_label(key, value)
    return key, operator, values


def _is_met(wanted: _Wanted, labels: Labels) -> bool:
    key, operator, values = wanted
    if operator in _OF_KEYS:
        return (key in labels) is (operator == "Exists")
    return (labels.get(key) in values) is (operator == "In")  # of an absent label NotIn is met


def _is(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _no_label(key: object, value: object) -> ConfigError:
    return ConfigError(f"bad label selector: no label is {f'{key}={value}'!r:.200}. Correct key or value.")


def _terms(selector: str) -> list[str]:
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
        values = _listed(listed)
        if not all(map(_A_VALUE.fullmatch, values)):
            return None
        if operator == "notin":
            return lambda labels: labels.get(label) not in values
        return lambda labels: labels.get(label) in values
    return None


def _listed(values: str) -> set[str]:
    return {value.strip() for value in values.split(",")}


def _compares(value: str, operator: str, bound: int) -> bool:
    """Return whether a label's value is a number of 64 bits, and more or less than the bound."""
    if not _NUMBER.fullmatch(value) or int(value) > _GREATEST:
        return False
    return int(value) > bound if operator == ">" else int(value) < bound
