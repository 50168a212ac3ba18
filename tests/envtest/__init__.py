"""A real kube-apiserver and etcd for the tests: where their binaries are.

``KUBEBUILDER_ASSETS`` (envtest's convention) comes first, then the cache that
``python -m tests.envtest`` fills. Nothing is built unasked.
"""

import hashlib
import os
from pathlib import Path

MODULE = Path(__file__).parent
PROGRAMS = ("kube-apiserver", "etcd")
KUBERNETES_VERSION = "1.36.3"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
BUILD_COMMAND = "python -m tests.envtest"
BUILD_FLAGS = (
    "-trimpath",
    "-ldflags=-s -w"
    f" -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}"
    f" -X k8s.io/component-base/version.gitMajor={_MAJOR}"
    f" -X k8s.io/component-base/version.gitMinor={_MINOR}",
)


def cached() -> Path:
    """Return the folder of the cache that belongs to these sources, built or not."""
    digest = hashlib.sha256(repr(BUILD_FLAGS).encode())
    for source in sorted([*MODULE.glob("go.*"), *MODULE.glob("*/*.go")]):
        digest.update(source.read_bytes())
    folder = f"{KUBERNETES_VERSION}-{digest.hexdigest()[:12]}"
    return Path.home() / ".cache" / "distq" / "envtest" / folder


def assets() -> Path | None:
    """Return the folder that holds both programs, None where there is none."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(given) if given else cached()
    return folder if all((folder / program).is_file() for program in PROGRAMS) else None
