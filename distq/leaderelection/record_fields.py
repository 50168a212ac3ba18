"""The leader's record as named fields, as client-go spells them wherever it keeps one."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from distq.leaderelection.lock import LeaderElectionRecord

MOST_TRANSITIONS = 2**31 - 1
"""What a Lease can hold; it stays there, since the API server would refuse a greater number."""


def record_from(fields: Mapping[str, Any], *, version: str, transitions: str) -> LeaderElectionRecord:
    """Read the fields, of any writer; what is absent or null is empty.

    ``transitions`` is the name of that field. Raises TypeError or ValueError for what is no record.
    """
    holder, duration = fields.get("holderIdentity") or "", float(fields.get("leaseDurationSeconds") or 0)
    if not isinstance(holder, str):
        raise TypeError(f"holderIdentity is {holder!r:.80}, no text")
    changes = float(fields.get(transitions) or 0)
    for name, number in (("leaseDurationSeconds", duration), (transitions, changes)):
        if not math.isfinite(number):  # Python's JSON has NaN, which ends at once, and Infinity
            raise ValueError(f"{name} is {number}")
    return LeaderElectionRecord(
        holder_identity=holder,
        lease_duration=duration,
        acquire_time=_parse(fields.get("acquireTime")),
        renew_time=_parse(fields.get("renewTime")),
        leader_transitions=int(changes),
        version=version,
    )


def fields_of(
    record: LeaderElectionRecord, *, transitions: str, precision: Literal["seconds", "microseconds"]
) -> dict[str, Any]:
    """Return the fields; the duration is in whole seconds, rounded up."""

    def text(time: datetime | None) -> str | None:
        # The API server refuses other than six decimals in a Lease, and any where it wants seconds.
        if time is None:
            return None
        return time.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")

    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": math.ceil(record.lease_duration),
        "acquireTime": text(record.acquire_time),
        "renewTime": text(record.renew_time),
        transitions: min(record.leader_transitions, MOST_TRANSITIONS),
    }


def _parse(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
