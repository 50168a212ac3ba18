"""A real kube-apiserver and etcd for tests: where their programs are, and from what they are built.

``KUBEBUILDER_ASSETS`` (envtest's convention) comes first, then the cache that
``python -m distq.testing.envtest`` fills. Nothing is built unasked.
"""

import os
from pathlib import Path

from distq.errors import ConfigError
from distq.testing.go_module import GoModule

COMMAND = "python -m distq.testing.envtest"
KUBERNETES_VERSION = "1.36.3"
VARIABLE = "KUBEBUILDER_ASSETS"
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
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else MODULE.cached()
    return folder if MODULE.is_in(folder) else None


def find_assets() -> Path:
    """Return the folder that holds both programs; raise ConfigError where there is none."""
    if (folder := assets()) is not None:
        return folder
    if given := os.environ.get(VARIABLE):
        raise ConfigError(
            f"no kube-apiserver and etcd in {VARIABLE}={given}. Correct it; or unset it, and run {COMMAND}, "
            "which builds them."
        )
    raise ConfigError(
        f"no kube-apiserver and etcd. Build them with Go, by {COMMAND}; or set {VARIABLE} to where "
        '"setup-envtest use -p path" has them.'
    )


def build_assets() -> Path:
    """Return the folder that holds both programs, and build them first where there is none.

    Raises ConfigError where ``KUBEBUILDER_ASSETS`` names a folder without them, or they cannot be built.
    """
    return find_assets() if os.environ.get(VARIABLE) else MODULE.build()
