"""The host path provisioner: a volume is a directory, made and deleted as often as it is asked for."""

from pathlib import Path

import pytest

import workers.provisioner
from distq import key_of
from distq.cli.target import load_program
from distq.testing import Sandbox
from tests.workers.provisioning import Kubernetes, new_claim, new_class
from workers.provisioner import IgnoredError, ProvisionController, ProvisioningFinished, ProvisionOptions
from workers.provisioner.fields import pv_name
from workers.provisioner.hostpath import PROVISIONER_NAME, HostPathProvisioner
from workers.provisioner.provision_controller import CLAIM, VOLUME

EXAMPLE = Path(workers.provisioner.__file__).parent / "hostpath.yaml"
OPTIONS = ProvisionOptions(new_class(PROVISIONER_NAME), "pvc-1", new_claim("any", PROVISIONER_NAME), None)


def volume_of(provisioner: HostPathProvisioner) -> dict[str, object]:
    """Return the PersistentVolume that it makes, as stored."""
    made = provisioner.provision(OPTIONS)
    return made | {"metadata": made["metadata"] | {"name": OPTIONS.pv_name}}


def test_the_example_gets_its_directory(sandbox: Sandbox, tmp_path: Path) -> None:
    """From the claim beside it to the directory, and back, with the file that was written into it."""
    provisioner = HostPathProvisioner(tmp_path)
    controller = ProvisionController(PROVISIONER_NAME, provisioner)
    _, claim = sandbox.apply(EXAMPLE)
    sandbox.run_until_idle(controller.claims, controller.volumes)
    volume = sandbox.client.get(VOLUME, pv_name(claim))
    assert volume is not None
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["capacity"] == {"storage": "1Mi"}
    directory = Path(volume["spec"]["hostPath"]["path"])
    assert directory.parent == tmp_path
    (directory / "written by a pod").touch()
    kubernetes = Kubernetes(sandbox.client)
    kubernetes.bind(claim)
    kubernetes.release(claim)
    sandbox.run_until_idle(controller.claims, controller.volumes)
    assert sandbox.client.get(CLAIM, key_of(claim)) is None
    assert sandbox.client.get(VOLUME, pv_name(claim)) is None
    assert [*tmp_path.iterdir()] == []


def test_pods_of_any_user_may_write(tmp_path: Path) -> None:
    """With any umask of the provisioner."""
    HostPathProvisioner(tmp_path).provision(OPTIONS)
    assert (tmp_path / OPTIONS.pv_name).stat().st_mode & 0o777 == 0o777


def test_asked_again_it_does_no_harm(tmp_path: Path) -> None:
    """Files in an existing directory stay; a second deletion does nothing."""
    provisioner = HostPathProvisioner(tmp_path)
    volume = volume_of(provisioner)
    data = tmp_path / OPTIONS.pv_name / "data"
    data.touch()
    assert volume_of(provisioner) == volume
    assert data.exists()
    for _ in range(2):
        provisioner.delete(volume)
    assert not data.parent.exists()


def test_a_directory_that_cannot_be_made_is_a_failure_that_leaves_nothing(tmp_path: Path) -> None:
    """The claim need not wait for it."""
    (tmp_path / "file").touch()
    with pytest.raises(ProvisioningFinished):
        HostPathProvisioner(tmp_path / "file").provision(OPTIONS)


def test_the_directories_of_others_are_left_alone(tmp_path: Path) -> None:
    """A volume names its provisioner, and only that one deletes it."""
    volume = volume_of(HostPathProvisioner(tmp_path, "node-1"))
    for other in ("node-2", ""):
        with pytest.raises(IgnoredError):
            HostPathProvisioner(tmp_path, other).delete(volume)
    assert (tmp_path / OPTIONS.pv_name).exists()


def test_it_is_a_target_with_two_controllers() -> None:
    """``distq run`` and ``distq manifests`` find both."""
    controllers = load_program("workers.provisioner.hostpath").controllers
    assert [each.name for each in controllers] == [
        "example.com-hostpath-claims",
        "example.com-hostpath-volumes",
    ]
