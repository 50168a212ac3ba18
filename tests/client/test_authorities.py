"""Two clusters are distinguished by the authorities of their API servers, without asking them."""

import base64
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from distq.client import Client, authorities, credentials
from tests.client.test_credentials import exec_plugin
from tests.support.api_servers import write_kubeconfig
from tests.support.parts import program

SERVER = "https://127.0.0.1:1"
"""No server listens there: each request fails."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two certificates, old.crt and new.crt."""
    folder = tmp_path_factory.mktemp("authorities")
    for name in ("old", "new"):
        subprocess.run(
            [
                *(program("openssl", package="openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes"),
                *("-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt"),
            ],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


def fingerprint(path: Path) -> str:
    """Return what openssl prints of a certificate, in our letters."""
    printed = subprocess.run(
        ["openssl", "x509", "-in", str(path), "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return printed.partition("=")[2].replace(":", "").lower()[:12]


def found(folder: Path, **cluster: Any) -> tuple[str, ...]:
    """Return the authorities of a kubeconfig with this cluster; its user's plugin would fail the test."""
    plugin = exec_plugin(folder, f"open({str(folder / 'asked')!r}, 'w')")
    write_kubeconfig(folder / "kubeconfig", cluster={"server": SERVER, **cluster}, user=plugin)
    authorities = Client(folder / "kubeconfig").authorities()
    assert not (folder / "asked").exists()
    return authorities


def test_a_certificate_is_its_fingerprint(folder: Path) -> None:
    """From a file, beside the kubeconfig or not, or from its data: the same, and openssl's."""
    old = folder / "old.crt"
    encoded = base64.b64encode(old.read_bytes()).decode()
    assert found(folder, **{"certificate-authority": str(old)}) == (fingerprint(old),)
    assert found(folder, **{"certificate-authority": "old.crt"}) == (fingerprint(old),)
    assert found(folder, **{"certificate-authority-data": encoded}) == (fingerprint(old),)


def test_a_bundle_is_all_its_certificates(folder: Path) -> None:
    """So that the old one, both, and the new one are one cluster from step to step; text between is none."""
    old, new = folder / "old.crt", folder / "new.crt"
    (folder / "both.crt").write_text(f"# old\n{old.read_text()}\n# new\n{new.read_text()}{old.read_text()}")
    authorities = found(folder, **{"certificate-authority": "both.crt"})
    assert authorities == tuple(sorted((fingerprint(old), fingerprint(new))))


def test_a_bundle_of_public_authorities_identifies_no_cluster(folder: Path) -> None:
    """Half of all clusters might have it."""
    many = [ssl.DER_cert_to_PEM_cert(os.urandom(64)) for _ in range(33)]
    (folder / "public.crt").write_text("".join(many))
    assert found(folder, **{"certificate-authority": "public.crt"}) == ()
    (folder / "own.crt").write_text("".join(many[:32]))
    assert len(found(folder, **{"certificate-authority": "own.crt"})) == 32


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"server": "http://127.0.0.1:1", "certificate-authority": "old.crt"},
        {"certificate-authority": "missing.crt"},
        {"certificate-authority-data": "!"},
        {"certificate-authority": "old.key"},
        {"server": None},
    ],
)
def test_an_unknown_authority_identifies_no_cluster(cluster: dict[str, Any], folder: Path) -> None:
    """Without TLS or an authority of its own, or with a file that a request complains about."""
    assert found(folder, **cluster) == ()


def test_without_a_kubeconfig_no_cluster_is_identified(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker needs no cluster; in a pod it has what its service account mounts, as it is at each look."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    mounted = tmp_path / "ca.crt"
    monkeypatch.setattr(authorities, "POD_AUTHORITY", mounted)
    client = Client()
    assert client.authorities() == ()
    for name in ("old", "new"):
        mounted.write_bytes((folder / f"{name}.crt").read_bytes())
        assert client.authorities() == (fingerprint(folder / f"{name}.crt"),)
    assert credentials.kubeconfig_file(None) is None
    assert Client(tmp_path / "none").authorities() == ()
