"""The limits of one step. Each is defined only here; the documentation quotes it.

Redis does nothing else while a script runs, so most limits bound a script to a few milliseconds; the others
bound the memory of a process. For each a test exceeds it, with the marker ``bound``.
"""

KEY_BYTES = 1024
"""Bytes of a key."""

TURN_LIMIT = 250
"""Settlements and claims of a turn, each way."""

COSTLY_LIMIT = 50
"""Settlements other than successes of a turn: each costs as much as ten successes."""

BATCH_LIMIT = 1000
"""Items of an add; keys, known, gone, unrouted and cached objects of a commit together; objects of a page."""

BUFFERED_LIMIT = 10_000
"""Adds that a process buffers before ``add`` itself sends them."""

PAGE_SIZE = 500
"""Objects of a page of a list from the API server, as in client-go's pager."""

LIST_BYTES = 8 * 1024 * 1024
"""Bytes of such a page; a page of one object may have more."""

CACHED_LIMIT = 256 * 1024
"""Bytes of an object in the cache; of a larger one the cache holds only the name and version."""

CACHED_BYTES = 1024 * 1024
"""Bytes of the cached objects of a commit; about as many are in a page that is read."""

OLD_OBJECTS = 25
"""Cached objects that a stream reads together, to compare them with newer ones: 6 MiB at most."""

INDEX_VALUES = 1000
"""Values that an object may have for one index; an object with more is dead."""

TERMS_LIMIT = 64 * 1024
"""Bytes of the index terms of a commit's cached objects, before and after it; one object may have more."""

REPAIR_LIMIT = 250
"""Items that a script requeues, deletes or parks, or whose crashes it takes back."""

SCAN_LIMIT = 500
"""Members, or entries of a trace, that are read at a time."""

READS_AT_ONCE = 1000
"""Reads of a script that sees one moment: some two milliseconds."""

FAIR_LOOK = 100
"""Items per priority in which a fair queue looks for the longest waiting one."""

LOOK_LIMIT = 1000
"""Members of a structure that ``distq check`` looks at."""

ERROR_BYTES = 512
"""Bytes of the text of an item's error."""

TRACEBACK_BYTES = 4096
"""Bytes of its traceback: the last ones."""

REASON_BYTES = 256
"""Bytes of an operator's reason for parking an item."""

TRACE_ENTRIES = 10_000
"""Entries that a trace keeps, unless its caller wants more."""

TRACE_ENTRY_BYTES = 16 * 1024
"""Bytes of an entry; of a longer entry only its size is kept."""

TRACE_BYTES = 16 * 1024 * 1024
"""Bytes of all entries."""

AUDIT_ENTRIES = 1000
"""Actions of users that the audit of a queue keeps."""

AUDIT_LETTERS = 1000
"""Letters of an action there, and of its outcome."""

FLOW_ITEMS = 2000
"""Items of a structure that a look at a queue by flow reads."""

FLOWS_SHOWN = 20
"""Flows that a look at a queue returns."""

FLOWS_REPORTED = 40
"""Flows whose waiting times a process reports with a heartbeat."""

FLOW_LETTERS = 100
"""Letters of the name of such a flow; one with a longer name is not reported."""

FLOW_LABELS = 10
"""Flows that have a label of their own in the metrics of a queue."""

READ_AHEAD_LINES = 4000
"""Lines of a watch that wait to be handled; then the socket fills, and the API server waits or closes it."""

READ_AHEAD_BYTES = 4_000_000
"""Bytes of these lines, and one line: a streamed list must not take its memory twice."""

WATCH_LINES = 4000
"""Lines that a watch keeps for the slowest of several streams."""

WATCH_BYTES = 8_000_000
"""Bytes of these lines, the newest apart."""
