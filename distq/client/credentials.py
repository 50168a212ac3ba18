"""The cluster and the user, found as the ``kubernetes`` package finds them.

The package reads kubeconfig files and service accounts, runs exec plugins and
refreshes tokens. Added here: errors that name the file and keep its secrets.
"""

import binascii
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from distq.client import exec_plugin
from distq.config import kubeconfig_variable
from distq.errors import ConfigError
from distq.extras import missing_extra
from distq.wording import duration

if TYPE_CHECKING:
    from kubernetes.client import Configuration

HOME_KUBECONFIG = Path("~/.kube/config")
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Cluster:
    """A cluster's address, trust and credentials, where they were found, and the namespace chosen there."""

    configuration: "Configuration"
    origin: str
    namespace: str


def import_package() -> None:
    """Import the package ``kubernetes`` now and not at the first use, for a program that needs it."""
    import kubernetes.config  # noqa: F401


def load(kubeconfig: str | os.PathLike[str] | None, context: str | None) -> Cluster:
    """Read the given kubeconfig, else KUBECONFIG's, else ``~/.kube/config``, else the pod's service account.

    Source of the order: kubectl.
    """
    try:
        from kubernetes.client import Configuration
    except ImportError:
        raise missing_extra("no Kubernetes client", "kubernetes") from None
    configuration = Configuration()
    chosen = kubeconfig_file(kubeconfig)
    if chosen is None:
        _load_service_account(configuration)
        return Cluster(configuration, "the pod's service account", _pod_namespace())
    namespace = _load_file(chosen, context, configuration)
    _check_server(chosen, configuration.host)
    return Cluster(configuration, f"kubeconfig {chosen}", namespace)


def kubeconfig_file(given: str | os.PathLike[str] | None) -> str | None:
    """Return the kubeconfig to read, or None where it is the pod's service account that counts."""
    chosen = os.fspath(given) if given else kubeconfig_variable()
    if chosen is None and HOME_KUBECONFIG.expanduser().exists():
        return str(HOME_KUBECONFIG)
    return chosen


def _load_service_account(configuration: "Configuration") -> None:
    from kubernetes.config import ConfigException, load_incluster_config

    try:
        load_incluster_config(client_configuration=configuration)
    except ConfigException as error:
        if "host/port" in str(error):  # the package's word for a process outside of a pod
            raise ConfigError(
                f"no cluster: KUBECONFIG unset, no {HOME_KUBECONFIG}, not in a pod. "
                'Set it or try "distq sandbox".'
            ) from None
        cause = str(error).rstrip(".")
        raise ConfigError(f"no cluster: in a pod, but: {cause}. Mount a service account.") from None


def _pod_namespace() -> str:
    try:
        return POD_NAMESPACE.read_text().strip() or "default"
    except OSError:
        return "default"


def _forget_removed_files(kept: dict[str, str]) -> None:
    """Let the package write its files of certificates again that were removed; older releases do not look."""
    for content, file in list(kept.items()):
        if not Path(file).exists():
            kept.pop(content, None)


def _load_file(path: str, context: str | None, configuration: "Configuration") -> str:
    import yaml
    from kubernetes.config import ConfigException, kube_config, load_kube_config_from_dict

    if not any(Path(part).expanduser().exists() for part in path.split(os.pathsep) if part):
        raise ConfigError(f"no cluster: kubeconfig {path} does not exist. Correct KUBECONFIG or the path.")
    try:
        merger = kube_config.KubeConfigMerger(path)
        chosen, plugin = _chosen_context(merger.config, context)
        exec_plugin.bound_plugins(merger.config.value["users"])
        _forget_removed_files(getattr(kube_config, "_temp_files", {}))
        began = time.monotonic()
        load_kube_config_from_dict(merger.config, context=context, client_configuration=configuration)
        merger.save_changes()  # a refreshed token of OIDC may be the only one that is good by now
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _broken(path, f"{error.problem}{line}") from None
    except ConfigException as error:
        raise _broken(path, str(error)) from None
    except binascii.Error:
        raise _broken(path, "data that is not base64") from None
    except (  # as the package raises for YAML of any other shape
        OSError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
        yaml.YAMLError,
    ) as error:
        raise _broken(path, error.strerror or "" if isinstance(error, OSError) else "") from None
    # the package only logs that a plugin failed
    if plugin and not configuration.api_key and not configuration.cert_file:
        if (took := time.monotonic() - began) >= exec_plugin.TIMEOUT:
            raise ConfigError(
                f'no credentials: the exec plugin "{plugin}" of kubeconfig {path} gave none '
                f"within {duration(took)}. Run it to see what it waits for."
            )
        raise ConfigError(
            f'no credentials: the exec plugin "{plugin}" of kubeconfig {path} failed. Run it to see why.'
        )
    return str(chosen.safe_get("namespace") or "default")


def _check_server(path: str, server: str) -> None:
    try:
        parsed = parse_url(server)
    except LocationParseError:
        raise _broken(path, "a server that is not a URL") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise _broken(path, "a server without https:// and host, or none")


def _chosen_context(merged: Any, context: str | None) -> tuple[Any, str | None]:
    """Return the context, and the command of its user's exec plugin; None without one."""
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    name = chosen.safe_get("user")
    entry = merged["users"].get_with_name(name, safe=True) if name else None
    user = entry.safe_get("user") if entry is not None else None
    return chosen, str(user["exec"]["command"]) if user and "exec" in user else None


def _broken(path: str, cause: str) -> ConfigError:
    # the package may quote a part of the file, tokens and all
    cause = re.sub(r"/?\{.*", "", " ".join(cause.split()))
    cause = cause.removeprefix("Invalid kube-config file.").strip(" .")
    return ConfigError(f"broken kubeconfig {path}: {cause or 'not a kubeconfig'}. Correct it.")
