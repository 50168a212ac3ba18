"""How many claims a turn asks for."""


def wanted(text: str, now: int) -> int:
    """Return it of the script's input ``want``: those of a follow-up turn end at a time, in µs."""
    many, _, latest = text.partition(" until ")
    return 0 if latest and now > int(latest) else int(many)
