"""A real kube-apiserver and etcd for the tests: where their binaries are.

``KUBEBUILDER_ASSETS`` (envtest's convention) comes first, then the cache that
``python -m tests.go envtest`` fills. Nothing is built unasked.
"""

import os
from pathlib import Path

from tests.go.module import GoModule

KUBERNETES_VERSION = "1.36.3"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
MODULE = GoModule(
    Path(__file__).parent,
    KUBERNETES_VERSION,
    flags=(
        "-trimpath",
        "-ldflags=-s -w"
        f" -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}"
        f" -X k8s.io/component-base/version.gitMajor={_MAJOR}"
        f" -X k8s.io/component-base/version.gitMinor={_MINOR}",
    ),
    programs={"kube-apiserver": ("build", "./kube-apiserver"), "etcd": ("build", "./etcd")},
)


def assets() -> Path | None:
    """Return the folder that holds both programs, None where there is none."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(given) if given else MODULE.cached()
    return folder if MODULE.is_in(folder) else None
