"""The Reflector: RF of client-go's tools/cache."""

from tests.proofs.conformance.promises import API_SERVERS, different, not_applicable, same

_BACKS_OFF = "a Reflector backs off after every list and watch"
_LISTS = "errors of a watch cost a list"
_OLD = "lists may be answered from a cache of any age"

ROWS = [
    different(
        "RF-01",
        "after a connection that led nowhere it backs off, 0.8 s to 30, until the server answers again",
        _BACKS_OFF,
        on=(),
    ),
    same("RF-02", "a watch asks for an end after 5 to 10 minutes, at random", on=()),
    different("RF-03", "a list shows the newest state, of no version that it names", _OLD, on=()),
    same("RF-04", "a list that is answered too old is made again", on=()),
    different(
        "RF-05",
        "a position from the future is noticed before the watch, which would be silent",
        _OLD,
        on=API_SERVERS,
    ),
    same("RF-06", "lists come in pages of 500 at most, all of one version", on=API_SERVERS),
    different(
        "RF-07",
        "a list whose token expired begins anew, in larger pages",
        "a list whose token expired goes on without pages",
        on=(),
    ),
    same("RF-08", "a whole list replaces what was known, as of its version", on=()),
    same("RF-09", "a watch may begin with the list, and goes on from the marked bookmark", on=API_SERVERS),
    same("RF-10", "where no list is streamed it comes in pages; 429 and no answer are asked again", on=()),
    same("RF-11", "429 and a refused connection cost a new watch after a pause, no list", on=()),
    different(
        "RF-12",
        "an ERROR event other than 410 costs a new watch, and a list if it comes again",
        _LISTS,
        on=(),
    ),
    same("RF-13", "a watch that ends is opened again at once, from the last version", on=()),
    different(
        "RF-14",
        "a watch that always ends at once is opened ever less, without lists",
        _LISTS,
        on=(),
    ),
    same("RF-15", "bookmarks move the position and nothing else", on=()),
    same("RF-16", "added, modified, deleted; another event type is logged and left out", on=()),
    not_applicable("RF-17", "tables are refused", "none are asked for"),
    same("RF-18", "a resync hands over again what is known", on=()),
    same("RF-19", "it stops at once, also in an idle watch, and delivers nothing later", on=API_SERVERS),
    same("RF-20", "an error handler gets the error of a connection", on=()),
    same(
        "RF-21",
        "changes that the API server has forgotten cost a list, which lacks the vanished objects",
        on=API_SERVERS,
    ),
    same("RF-22", "a transform is applied once to each object of a streamed list", on=()),
    same("RF-23", "the version that the watch reached is reported", on=()),
    not_applicable("RF-24", "lists and streamed lists are compared, for debugging", "tests compare them"),
]
