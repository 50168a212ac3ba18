"""How much one step takes; each limit stands here alone, and the documentation quotes it.

Redis does nothing else while a script runs, so each bounds a script to a few milliseconds.
"""

TURN_LIMIT = 250
"""Settlements and claims of a turn, each way."""

COSTLY_LIMIT = 50
"""Settlements other than successes of a turn: each costs as much as ten successes."""

BATCH_LIMIT = 1000
"""Items of an add; keys, known and gone objects of a commit together."""

REPAIR_LIMIT = 500
"""Items that a script requeues, deletes or parks, or forgives a crash."""
