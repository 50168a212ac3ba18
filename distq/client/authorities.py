"""Distinguishes clusters without a request: by the certificates that vouch for their API servers."""

import base64
import hashlib
import os
import re
import ssl
from pathlib import Path

from distq.client.credentials import kubeconfig_file

POD_AUTHORITY = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_MOST = 32
"""Certificates at most of a bundle of one cluster; a larger bundle is the public's."""


def authorities(kubeconfig: str | os.PathLike[str] | None, context: str | None) -> tuple[str, ...]:
    """Return the first 12 digits of each authority's SHA-256 fingerprint; nothing where none is known.

    None is known without a kubeconfig or service account, without TLS, and where the server's certificate is
    checked by the system's authorities or not at all. No exec plugin runs for it.
    """
    try:
        file = kubeconfig_file(kubeconfig)
        bundle = _of_kubeconfig(file, context) if file else POD_AUTHORITY.read_text()
        certificates = map(ssl.PEM_cert_to_DER_cert, _CERTIFICATE.findall(bundle))
        found = {hashlib.sha256(certificate).hexdigest()[:12] for certificate in certificates}
    except Exception:  # noqa: BLE001  the first request reports what is wrong with the file
        return ()
    return tuple(sorted(found)) if len(found) <= _MOST else ()


def _of_kubeconfig(path: str, context: str | None) -> str:
    from kubernetes.config.kube_config import KubeConfigMerger

    merged = KubeConfigMerger(path).config
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    cluster = merged["clusters"].get_with_name(chosen["cluster"])["cluster"]
    if not cluster["server"].startswith("https://"):
        return ""
    if "certificate-authority-data" in cluster:
        return base64.b64decode(cluster["certificate-authority-data"]).decode()
    # a relative path begins in the kubeconfig's folder, as kubectl has it
    folder = Path(cluster.path).expanduser().absolute().parent
    return Path(folder, cluster["certificate-authority"]).read_text()
