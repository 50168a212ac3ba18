"""The dashboard on other releases of rq-dashboard than the one that is installed here."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.parts import missing

ROOT = Path(__file__).parents[2]
SHOW = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from importlib.metadata import version
import rq_dashboard
from distq.dashboard import create_app
from distq.inspector import Inspector
client = create_app(Inspector("redis://127.0.0.1:1/0")).test_client()
shown = ["/", "/0/view", "/0/view/queues", "/0/view/workers", "/0/view/jobs", "/0/data/queues.json"]
shown += ["/0/view/jobs/foos/queued/25/asc/1", "/0/data/jobs/foos/queued/25/asc/1.json"]
shown += ["/0/data/workers.json", "/0/view/job/foos:ready:a", "/0/data/job/foos:ready:a.json"]
acting = ["/job/a/delete", "/job/a/requeue", "/requeue/foos", "/queue/foos/queued/empty"]
acting += ["/queue/foos/compact"]
print(rq_dashboard.__file__, version("rq-dashboard"))
print({client.get(path, follow_redirects=True).status_code for path in shown})
print({client.post(path).status_code for path in acting})
"""


def oldest() -> str:
    """Return the oldest release that the package allows."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (found,) = (re.match(r"rq-dashboard>=([\d.]+)", each) for each in extras["dashboard"] if "rq-" in each)
    assert found
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("release", [f"=={oldest()}", ""], ids=["oldest", "newest"])
def test_all_urls_answer_on_the_oldest_and_the_newest_release(release: str, tmp_path: Path) -> None:
    """It starts; what shows asks Redis, which is away here, and what acts is refused."""
    kept = Path.home() / ".cache/distq/rq-dashboard" / release.removeprefix("==")
    place = kept if release else tmp_path
    if not (place / "rq_dashboard").is_dir():
        install = ["pip", "install", "-q", "--no-deps", "--target", str(place), f"rq-dashboard{release}"]
        done = subprocess.run([sys.executable, "-m", *install], capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"no rq-dashboard{release} in {place}: {' '.join(install)}")
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "PYTHONPATH": f"{place}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    first, shown, acting = done.stdout.splitlines()[-3:]
    assert first.startswith(f"{place}/rq_dashboard/__init__.py {release.removeprefix('==')}")
    assert shown == "{503}"
    assert acting == "{403}"
