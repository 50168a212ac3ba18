"""Runs faults against fleets of real processes, and prints a row for each and two lines for all.

Exit status 0 only if no acknowledged work was lost and nothing else was wrong either.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.proofs.nemesis.campaign import Campaign
from tests.proofs.nemesis.catalogue import Fault, faults
from tests.proofs.nemesis.lanes import Planned
from tests.proofs.nemesis.redelivery import Redelivery, measure
from tests.proofs.nemesis.release import is_in_history
from tests.proofs.nemesis.report import Row, write_table
from tests.support.redis_servers import KINDS

LONG = 126.0
"""Minutes."""
LONG_KILLS = 500
CLAIM_DURATION = 6.0
LIMIT, LIMITS = 2, (1, 2, 3)
"""Items of a namespace at a time, where there is a limit: in the short profile, and in the long one."""


def main() -> int:
    """Run, print, and return the exit status."""
    options = _options()
    chosen = [fault for fault in faults() if not options.fault or fault.name in options.fault]
    if not chosen:
        raise SystemExit(f"no such fault: {options.fault}. There are {', '.join(f.name for f in faults())}.")
    _say(f"seed {options.seed}")
    if not is_in_history():
        _say("0.1.0 is not in the history of this clone: left out what needs it")
        chosen = [fault for fault in chosen if not fault.older]
    rows: list[Row] = []
    began = time.monotonic()
    until = began + 60 * options.minutes if options.profile == "long" else math.inf
    for plan in _plans(chosen, options, until):
        campaign = Campaign(options.seed + len(rows), CLAIM_DURATION, _say, root=options.root, until=until)
        for row in campaign.run(plan):
            rows.append(row)
            _print(json.dumps(row.as_json()) if options.json else row.as_text())
    _say(f"{len(rows)} faults in {time.monotonic() - began:.0f} s")
    redelivery = _redelivery(options)
    if options.write_docs:
        write_table(rows, redelivery, CLAIM_DURATION)
    violations, lost = sum(len(row.wrong) for row in rows), sum(row.lost for row in rows)
    if redelivery is not None:
        violations, lost = violations + (not redelivery.passed), lost + redelivery.lost
    _print(f"violations: {violations}")
    _print(f"lost: {lost}")
    return 1 if violations or lost or not rows else 0


def _redelivery(options: argparse.Namespace) -> Redelivery | None:
    """Measure it in the long profile, and where it is asked for."""
    kills = options.redelivery or (LONG_KILLS if options.profile == "long" else 0)
    if not kills:
        return None
    measured = measure(kills, options.server or KINDS[0], random.Random(options.seed))
    _print(json.dumps(measured.as_json()) if options.json else measured.as_text())
    return measured


def _plans(chosen: list[Fault], options: argparse.Namespace, until: float) -> Iterator[list[Planned]]:
    """Yield one plan for the short profile; for the long one plans of all servers until time is over."""
    if options.profile == "short":
        limit, for_all = options.limit or LIMIT, options.limit is not None
        yield [_planned(fault, options.server or fault.server, limit, for_all) for fault in chosen]
        return
    chance = random.Random(options.seed)
    while time.monotonic() < until:
        kinds = [options.server] if options.server else KINDS
        yield [each for kind in kinds for each in _plan(chosen, kind, chance, options.limit)]


def _plan(chosen: list[Fault], kind: str, chance: random.Random, limit: int | None) -> Iterator[Planned]:
    """Yield the faults of one server; half of the time those without a limit have one, too."""
    drawn, for_all = chance.choice(LIMITS), chance.random() < 0.5
    for fault in chosen:
        if kind in fault.servers:
            yield _planned(fault, kind, limit or drawn, limit is not None or for_all)


def _planned(fault: Fault, kind: str, limit: int, for_all: bool) -> Planned:
    has_limit = fault.limited or (for_all and not fault.older)
    return Planned(fault, kind, limit if has_limit else None)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.proofs.nemesis", description=__doc__)
    parser.add_argument("--profile", choices=["short", "long"], default="short")
    parser.add_argument(
        "--minutes", type=float, default=LONG, help="of the long profile, %(default)g unless given"
    )
    parser.add_argument("--json", action="store_true", help="a JSON object for each fault")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fault", action="append", help="run this one alone, say F12; may be repeated")
    parser.add_argument("--server", choices=KINDS, help="on this one instead of the mix")
    parser.add_argument(
        "--limit", type=int, choices=LIMITS, help="items of a namespace at a time, in each fleet"
    )
    parser.add_argument("--redelivery", type=int, metavar="KILLS", help="also measure it, over so many kills")
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="the folder of another distq, with these tests"
    )
    parser.add_argument("--write-docs", action="store_true", help="put the figures into the documentation")
    return parser.parse_args()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
