"""How much one step takes; each limit is here alone, and the documentation quotes it.

Redis does nothing else while a script runs, so most of them bound a script to a few milliseconds; the others
bound the memory of a process.
"""

TURN_LIMIT = 250
"""Settlements and claims of a turn, each way."""

COSTLY_LIMIT = 50
"""Settlements other than successes of a turn: each costs as much as ten successes."""

BATCH_LIMIT = 1000
"""Items of an add; keys, known, gone, parked and cached objects of a commit together; objects of a page."""

LIST_BYTES = 8 * 1024 * 1024
"""Bytes of a page of a list that the API server answers; a page of one object may have more."""

CACHED_LIMIT = 256 * 1024
"""Bytes of an object that the cache holds; of a larger one it holds only that it is there."""

CACHED_BYTES = 1024 * 1024
"""Bytes of the cached objects of a commit; about as many are in a page that is read."""

INDEX_VALUES = 1000
"""Values that an object may have for one index; an object with more is parked."""

TERMS_LIMIT = 64 * 1024
"""Bytes of what finds the cached objects of a commit, before and after it; one object may have more."""

REPAIR_LIMIT = 500
"""Items that a script requeues, deletes or parks, or forgives a crash."""
