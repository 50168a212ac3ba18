"""The hint of a missing extra names the distq that runs, from where it was installed."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from distq import extras
from distq.extras import install_command, missing_extra

pytestmark = pytest.mark.first_contact(24)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def installed(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    """Let distq be a distribution of this origin (PEP 610); None is a package index."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(metadata, "distribution", lambda _: Installed())


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'distq[otel]'"),
        ({"url": "file:///src/distq", "dir_info": {"editable": True}}, "pip install -e '/src/distq[otel]'"),
        ({"url": "file:///my%20src/distq", "dir_info": {}}, "pip install '/my src/distq[otel]'"),
        (
            {"url": "file:///tmp/distq-1.0-py3-none-any.whl", "archive_info": {}},
            "pip install '/tmp/distq-1.0-py3-none-any.whl[otel]'",
        ),
        (
            {"url": "https://example.org/distq-1.0.tar.gz", "archive_info": {}},
            "pip install 'distq[otel] @ https://example.org/distq-1.0.tar.gz'",
        ),
        (
            {"url": "https://example.org/distq.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f"pip install 'distq[otel] @ git+https://example.org/distq.git@{COMMIT}'",
        ),
        (
            {"url": "https://example.org/all.zip", "archive_info": {}, "subdirectory": "distq"},
            "pip install 'distq[otel] @ https://example.org/all.zip#subdirectory=distq'",
        ),
    ],
)
def test_the_command_adds_the_extra_to_the_installed_source(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, command: str
) -> None:
    """A clone, a folder, a wheel, an archive and a repository are in no package index."""
    installed(monkeypatch, origin)
    assert install_command("otel") == command
    assert str(missing_extra("no OpenTelemetry API", "otel")) == (
        f"no OpenTelemetry API: the extra is not installed. Run {command}."
    )


def test_a_clone_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by PYTHONPATH."""

    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    clone = Path(extras.__file__).parents[1]
    assert install_command("otel") == f"pip install -e '{clone}[otel]'"
