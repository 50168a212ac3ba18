"""What a hand, another program or a broken disk may leave in Redis, of each kind."""

TEXTS = (
    b"garbage",
    b"",
    b"\xff\x00\xfe",
    b"three words here",
    b"1 2 three nan -",
    b"9" * 400,
    b"9" * 20 + b" 1 1 - boom",
    b"nan",
    b"inf",
    b"-inf",
    b"-7",
    b"1.5",
    b"1e300",
    b"null",
    b"[1]",
    b'{"lease": "x", "seen": "y", "fed": [], "pid": "z", "since": {}, "done": "a", "id": 7, "lists": []}',
)
"""Values of hashes."""

SCORES = ("+inf", "-inf", "-7", "0", "1.5", "5e-324", "1e300", "1.7e308", "-1e300")
"""Scores of sorted sets; Redis itself refuses those that are no numbers."""

MEMBERS = (b"\xff\xfe", b"ns/caf\xe9", b"two\nlines", b"\x00", b"", b"k" * 2000, b"\xed\xa0\x80")
"""Members of sorted sets and fields of hashes that are no keys."""
