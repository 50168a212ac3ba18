"""Evaluates limiters and keeps their token buckets (``rate_limiters`` documents them)."""

import math

_TEN_YEARS = 315_576_000 * 1_000_000


class Buckets:
    """The token buckets of one queue, by rate and burst: (tokens, when) each."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[float, float], tuple[float, int]] = {}

    def delay(self, program: str, count: int, now: int) -> float:
        """Return a limiter's delay for the ``count``-th failure, µs; every bucket in it is charged."""
        stack: list[float] = []
        words = iter(program.split())
        for word in words:
            match word:
                case "fixed":
                    stack.append(float(next(words)))
                case "exp":
                    first, most = float(next(words)), float(next(words))
                    # 2.0 ** 1024 is no float
                    stack.append(min(first * 2.0 ** min(count - 1, 1000), most))
                case "fastslow":
                    fast, slow, attempts = float(next(words)), float(next(words)), float(next(words))
                    stack.append(fast if count <= attempts else slow)
                case "bucket":
                    stack.append(self._reserve(float(next(words)), float(next(words)), now))
                case "maxof":
                    count_of = int(next(words))
                    stack[-count_of:] = [max(stack[-count_of:])]
                case "maxwait":
                    stack.append(min(stack.pop(), float(next(words))))
                case _:
                    raise ValueError(f"bad limiter {program!r}: unknown word {word!r}")
        (delay,) = stack
        return min(delay, _TEN_YEARS)

    def _reserve(self, rate: float, burst: float, now: int) -> float:
        """Take a token, in advance if there is none (golang.org/x/time/rate Reserve)."""
        if rate == math.inf:
            return 0
        if burst < 1:
            return math.inf
        tokens, at = self.tokens.get((rate, burst), (burst, now))
        tokens = min(burst, tokens + max(0, now - at) / 1_000_000 * rate) - 1
        self.tokens[rate, burst] = tokens, now
        if tokens >= 0:
            return 0
        return -tokens / rate * 1_000_000 if rate else math.inf
