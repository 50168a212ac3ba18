"""A program of ten lines whose server is not there ends with a traceback that shows its own mistake."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from tests.support.api_servers import write_kubeconfig

pytestmark = pytest.mark.first_contact(10)

REFUSED = "127.0.0.1:1"
"""No server listens there, and only root could."""

NO_REDIS = f"no Redis at {REFUSED}: connection refused. Check DISTQ_REDIS_URL."
NO_API = f"no answer from {REFUSED}: connection refused. Check that the API server runs and that kubeconfig "

PROGRAMS = {
    "a producer": ('from distq import Queue\n\nQueue("x").add("a")', NO_REDIS),
    "a consumer": ('from distq import Queue\n\nqueue = Queue("x")\nprint(queue.get())', NO_REDIS),
    "an operator's script": ("from distq import Inspector\n\nprint(Inspector().queues())", NO_REDIS),
    "a worker": (
        'from distq import Controller, Manager\n\nManager([Controller("x", print)]).run(informer=False)',
        NO_REDIS,
    ),
    "a read": ('from distq import Client\n\nclient = Client()\nclient.get("v1/Pod", "default/web")', NO_API),
    "a list": ('from distq import Client\n\nlist(Client().list("v1/Pod"))', NO_API),
    "a raw request": ('from distq import Client\n\nClient().request("GET", "/version")', NO_API),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_an_uncaught_error_is_short_and_ends_with_cause_and_remedy(kind: str, tmp_path: Path) -> None:
    """Under ten lines, one of them the program's own; the last is ``what: cause. Remedy.``"""
    source, message = PROGRAMS[kind]
    (tmp_path / "program.py").write_text(source)
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, cluster={"server": f"http://{REFUSED}"}, user={})
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"DISTQ_REDIS_URL": f"redis://{REFUSED}/0", "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert len(lines) < 10, done.stderr
    assert any(line.strip() == source.splitlines()[-1] for line in lines)
    assert message in lines[-1]
    assert lines[-1].startswith("distq.errors.")
    assert lines[-1].endswith(".")


def test_an_error_of_redis_py_is_hidden_and_not_lost() -> None:
    """A debugger finds it as the error's context."""
    with pytest.raises(RedisUnavailable) as caught:
        Connection(f"redis://{REFUSED}").execute("PING")
    assert caught.value.__suppress_context__
    assert "refused" in str(caught.value.__context__)
