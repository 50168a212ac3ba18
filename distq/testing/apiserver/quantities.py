"""Quantities as ``500m`` and ``1Gi``, in the one form that the server writes them.

Source: apimachinery pkg/api/resource/quantity.go.
"""

import math
import re
from decimal import Decimal, DecimalException
from typing import Any

_PATTERN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?")
_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_FINEST = -9
"""The least power of ten that an amount is rounded up to."""
_MOST_BINARY = Decimal(2**63 - 1)


def canonical(value: Any) -> str:
    """Return a text or number as the server writes it; raise ValueError where it is no quantity."""
    exact, suffix = _parsed(value)
    if suffix in _BINARY:
        return _binary(exact)
    if suffix in _DECIMAL:
        return _decimal(exact)
    digits, power = _whole(exact)
    return digits + (f"e{power}" if power else "")


def amount(value: Any) -> Decimal:
    """Return the number that a quantity is; raise ValueError where it is none."""
    return _parsed(value)[0]


def _parsed(value: Any) -> tuple[Decimal, str]:
    """Return the number that a quantity is, and the suffix that it is written with."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_RULE)
    parsed = _PATTERN.fullmatch(str(value))
    if parsed is None:
        raise ValueError(_RULE)
    number, suffix = Decimal(parsed[1]), parsed[2] or ""
    if suffix in _BINARY:
        return min(number * 1024 ** _BINARY[suffix], _MOST_BINARY), suffix
    try:
        return number.scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])), suffix
    except DecimalException:
        raise ValueError(_RULE) from None


def _binary(amount: Decimal) -> str:
    if abs(amount) < 1024 or amount != amount.to_integral_value():
        return _decimal(amount)
    power = max(each for each in [0, *_BINARY.values()] if amount % 1024**each == 0)
    name = next((name for name, each in _BINARY.items() if each == power), "")
    return f"{amount / 1024**power:f}".partition(".")[0] + name


def _decimal(amount: Decimal) -> str:
    digits, power = _whole(amount, max(_DECIMAL.values()))
    return digits + next(name for name, each in _DECIMAL.items() if each == power)


def _whole(amount: Decimal, most: float = math.inf) -> tuple[str, int]:
    """Return the digits and the greatest power of a thousand, ``most`` at most, of which it is a multiple."""
    sign, digits, exponent = amount.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  # it is a number
    number = int("".join(map(str, digits)))
    if exponent < _FINEST:
        finer = min(_FINEST - exponent, len(digits))  # beyond that it rounds up to the finest amount alike
        number, exponent = -(-number // 10**finer), _FINEST
    if not number:
        return "0", 0
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    power = min(exponent // 3 * 3, most)
    return f"{'-' * sign}{number * 10 ** (exponent - int(power))}", int(power)
