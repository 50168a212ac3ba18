"""Labels and selectors by chance, of so few words that they often meet."""

import random

KEYS = ("app", "tier", "example.com/app")
VALUES = ("web", "db", "", "1")


def labels(chance: random.Random) -> dict[str, str] | None:
    """Return the labels of an object, or none, in either way."""
    chosen = {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randrange(len(KEYS) + 1))}
    return chosen or chance.choice([{}, None])


def selector(chance: random.Random) -> str | dict[str, str]:
    """Return a selector as text or mapping, which may require nothing."""
    keys = chance.sample(KEYS, chance.randrange(len(KEYS) + 1))
    if chance.random() < 0.2:
        return {key: chance.choice(VALUES) for key in keys}
    return ",".join(_requirement(chance, key) for key in keys)


def _requirement(chance: random.Random, key: str) -> str:
    value, several = chance.choice(VALUES), ", ".join(chance.sample(VALUES, chance.randrange(4)))
    return chance.choice(
        [
            *(f"{key}={value}", f"{key} == {value}", f"{key}!={value}", key, f"!{key}", f"{key}>0"),
            *(f"{key} in ({several})", f"{key}  in({several})", f"{key} notin ({several})"),
        ]
    )
