"""The end of streams that are no longer watched."""

import logging
import threading
from collections.abc import Sequence
from functools import partial

from distq.client.outage import Outage
from distq.controller.stream.committer import Committer
from distq.controller.stream.mapping import key_of_name
from distq.controller.stream.relist import drop_unlisted_parked, write_all_tombstones
from distq.controller.stream.routing import Route
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.errors import ApiError, RedisError
from distq.informer.backoff import Backoff
from distq.informer.sink import PositionMoved
from distq.redisio.checkpoints import MARK
from distq.redisio.commit import Commit
from distq.redisio.records import StreamRecord
from distq.redisio.stream_store import StreamStore, stream_records

logger = logging.getLogger(__name__)


class StreamCleanup:
    """Removes the streams that this owner once fed and no longer watches."""

    def __init__(self, watched: Sequence[StreamSource], config: SourceConfig) -> None:
        self._watched = watched
        self._config = config

    def __str__(self) -> str:
        return "streams no longer watched"

    def run(self, stop: threading.Event) -> None:
        """Enqueue the keys of all objects that such streams knew, then remove them; try until it is done."""
        backoff = Backoff(self._config.clock)
        outage = Outage(f"{self._config.queue}: streams no longer watched", logger, self._config.clock)
        while self._config.owner and not stop.is_set():
            try:
                self._clean_up(stop)
            except (ApiError, RedisError, PositionMoved) as error:
                outage.failed(error)
                self._config.clock.wait(stop, backoff.delay())
            else:
                outage.over()
                return

    def _clean_up(self, stop: threading.Event) -> None:
        watched = {stream.name() for stream in self._watched}
        records = stream_records(self._config.connection, self._config.queue)
        cluster = self._config.client.cluster_id()
        for name, record in records.items():
            if name in watched or record.about.get("owner") != self._config.owner or stop.is_set():
                continue
            if record.about.get("cluster") == cluster:
                self._remove(name, record, stop)
            else:  # gone for ever, or led by another process: nothing here shows which
                logger.warning("%s: %s is of another cluster; left alone", self._config.queue, name)

    def _remove(self, name: str, record: StreamRecord, stop: threading.Event) -> None:
        logger.info("%s: no longer watched: %s; its objects once more", self._config.queue, name)
        config, resource = self._config, str(record.about.get("resource") or name)
        mapped = bool(record.about.get("mapped"))
        committer = Committer(
            StreamStore(config.connection, config.queue, name),
            config.leadership,
            config.clock,
            stop,
            about=lambda: record.about,
            present_version=self._watched[0].list_watch.version if self._watched else str,
            committed=partial(config.count_commit, resource),
            span=partial(config.commit_span, resource),
            # the record of a distq 0.1.0 does not have it
            parked_as=str(record.about.get("parked_as") or (f"{name}: " if mapped else "")),
        )
        committer.load()
        # What is known will not be whole any more: a stream that is watched again in between must list.
        committer.commit(Commit(new=MARK))
        write_all_tombstones(
            committer,
            (),
            lambda gone: (
                Route(name, known.keys if mapped else key_of_name(name), None) for name, known in gone
            ),
        )
        drop_unlisted_parked(committer, ())
        committer.commit(Commit(new=""))
