"""Label selectors, as kubectl and the API server write them."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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

_OF_VALUES, _OF_KEYS = ("In", "NotIn"), ("Exists", "DoesNotExist")


class _Requirement(NamedTuple):
    """A selector's requirement of one label; the operator is one of ``matchExpressions``, or < or >."""

    key: str
    operator: str
    values: Collection[str] = ()

    def test(self) -> Callable[[Labels], bool]:
        key, operator, values = self
        if operator in _OF_KEYS:
            exists = operator == "Exists"
            return lambda labels: (key in labels) is exists
        if operator in _OF_VALUES:
            is_in = operator == "In"
            return lambda labels: (labels.get(key) in values) is is_in  # of an absent label NotIn is met
        (bound,) = values
        return lambda labels: _compares(labels.get(key, ""), operator, int(bound))


def label_selector(selector: str | Labels) -> Callable[[Labels], bool]:
    """Return the test that a selector means: a mapping of labels to values, or text as for kubectl.

    Text is ``app=web,tier!=cache,env in (a,b),!canary,size>2``; empty selects everything. ConfigError for
    text that is no selector, and for keys and values that no label has. Source: apimachinery labels.Parse.
    """
    tests = [each.test() for each in _requirements(selector)]
    if len(tests) == 1:  # as most have, and lists test each object
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def require_selectors(resource: str, labels: Any, fields: Any) -> None:
    """Raise ConfigError for selectors that are no text, or no label selector: no API server reads them."""
    for name, selector, example in (("label", labels, "app=web"), ("field", fields, "metadata.name=web")):
        if not isinstance(selector, str):
            raise ConfigError(
                f"bad {name}_selector of {resource}: {selector!r:.80}. Give a text, such as {example}."
            )
    label_selector(labels)


def label_pairs(selector: str | Labels) -> Sequence[str]:
    """Return a few labels, each as ``key=value``, one of which all have that a selector selects.

    Of several requirements it takes the first with the fewest values. [] where there is none. Raises as
    ``label_selector`` does.
    """
    required = [each for each in _requirements(selector or "") if each.operator == "In"]
    few = [each for each in required if len(each.values) <= FEW_PAIRS]
    fewest = min(few, key=lambda each: len(each.values), default=_Requirement("", "In"))
    return [f"{fewest.key}={value}" for value in fewest.values]


def matches(selector: Mapping[str, Any] | None, labels: Labels | None) -> bool:
    """Return whether labels match a selector as objects have it: ``matchLabels`` and ``matchExpressions``.

    None matches nothing, an empty selector everything; labels that are None are none. ConfigError for any
    other field, an unknown operator, values that do not fit it, and keys and values that no label has.
    Source: apimachinery metav1.LabelSelectorAsSelector.
    """
    if selector is None:
        return False
    tests = [each.test() for each in _written_out(selector)]  # all of it is checked, with any labels
    return all(test(labels or {}) for test in tests)


def _requirements(selector: str | Labels) -> list[_Requirement]:
    if isinstance(selector, Mapping):
        return [_equal(key, value) for key, value in selector.items()]
    if not isinstance(selector, str):
        raise ConfigError(f"bad label selector {selector!r:.80}. Give text, or a mapping of labels.")
    # a comma within parentheses is between values
    terms = re.split(r",(?![^(]*\))", selector) if selector.strip() else []
    return [_parsed(term.strip(), selector) for term in terms]


def _parsed(term: str, selector: str) -> _Requirement:
    if match := _EXISTS.fullmatch(term):
        return _Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    if match := _EQUALS.fullmatch(term):
        return _Requirement(match[1], "NotIn" if match[2] == "!=" else "In", [match[3]])
    if (match := _COMPARES.fullmatch(term)) and int(match[3]) <= _GREATEST:
        return _Requirement(match[1], match[2], [match[3]])
    if match := _IN.fullmatch(term):
        values = {value.strip() for value in match[3].split(",")}
        if all(map(_A_VALUE.fullmatch, values)):
            return _Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    raise ConfigError(
        f'bad label selector "{selector}": "{term}" is no requirement. '
        "Use app=web, app!=web, app in (a,b), app, !app or size>2, and commas between."
    )


def _written_out(selector: object) -> Iterator[_Requirement]:
    """Yield the requirements of a selector of an object; raise ConfigError for the first that is none."""
    if not isinstance(selector, Mapping) or selector.keys() - {"matchLabels", "matchExpressions"}:
        raise ConfigError(f"bad label selector {selector!r:.80}. Use matchLabels and matchExpressions alone.")
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ConfigError(f"bad label selector {selector!r:.80}. Use an object of matchLabels, and a list.")
    for key, value in labels.items():
        yield _equal(key, value)
    for each in expressions:
        yield _requirement_of(each)


def _requirement_of(expression: object) -> _Requirement:
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
        _equal(key, value)  # for its errors, about the key, too
    return _Requirement(key, operator, values)


def _equal(key: object, value: object) -> _Requirement:
    if not (isinstance(key, str) and _A_KEY.fullmatch(key)) or not (
        isinstance(value, str) and _A_VALUE.fullmatch(value)
    ):
        raise ConfigError(f"bad label selector: no label is {f'{key}={value}'!r:.200}. Correct key or value.")
    return _Requirement(key, "In", [value])


def _compares(value: str, operator: str, bound: int) -> bool:
    """Return whether a label's value is a number of 64 bits, and more or less than the bound."""
    if not _NUMBER.fullmatch(value) or int(value) > _GREATEST:
        return False
    return int(value) > bound if operator == ">" else int(value) < bound
