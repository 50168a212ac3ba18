"""Where the client finds its cluster, and how it proves who it is."""

import json
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as typed  # whose classes load when they are used

from distq.client import Client, credentials
from distq.client import exec_plugin as plugins
from distq.errors import ApiError, ConfigError
from tests.client.tls_server import Echo, serving
from tests.support.api_servers import RealApiServer, real_api_server_assets, write_kubeconfig
from tests.support.eventually import eventually

SECRET = "s3cr3t-t0ken"


@pytest.fixture(scope="module")
def server() -> Any:
    """Give a real API server, since the emulated one admits every user."""
    with RealApiServer(real_api_server_assets()) as server:
        yield server


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away every place where a cluster could be found."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(variable, raising=False)


def cluster_of(server: RealApiServer) -> dict[str, Any]:
    """Return the cluster's entry in a kubeconfig."""
    return {"server": server.url, "certificate-authority": str(server.certificate_authority)}


def exec_plugin(folder: Path, program: str) -> dict[str, Any]:
    """Return a kubeconfig's user whose token comes from a Python program."""
    script = folder / "plugin.py"
    script.write_text(program)
    command = {"command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}


def test_token_of_a_file_is_read_anew_when_refused(server: RealApiServer, tmp_path: Path) -> None:
    """A token that was rotated on disk is found without a new Client."""
    token = tmp_path / "token"
    token.write_text(f"{server.token}\n")
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user={"tokenFile": str(token)})
    client = Client(tmp_path / "kubeconfig")
    assert client.get("v1/Namespace", "default")
    server.rotate_token()
    with pytest.raises(
        ApiError, match=r"401 Unauthorized\. Check the credentials in kubeconfig /.*expired"
    ) as caught:
        client.get("v1/Namespace", "default")
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
    token.write_text(server.token)
    assert client.get("v1/Namespace", "default")


def test_kubeconfig_that_is_being_written_when_its_token_is_refused_is_read_again(
    server: RealApiServer, tmp_path: Path
) -> None:
    """An unreadable one does not stop connected clients: it may be whole a moment later."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig.read_text())
    client = Client(kubeconfig)
    assert client.get("v1/Namespace", "default")
    server.rotate_token()
    kubeconfig.write_text("")
    for _ in range(2):
        with pytest.raises(ApiError, match="file is empty") as caught:
            client.get("v1/Namespace", "default")
        assert caught.value.status == 401
    kubeconfig.write_text(server.kubeconfig.read_text())
    assert client.get("v1/Namespace", "default")


def test_typed_api_reads_the_token_of_a_file_anew(server: RealApiServer, tmp_path: Path) -> None:
    """What a Client finds when it is refused, its typed API finds, too."""
    token = tmp_path / "token"
    token.write_text(server.token)
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user={"tokenFile": str(token)})
    core = typed.CoreV1Api(Client(tmp_path / "kubeconfig").api_client())
    assert core.read_namespace("default")
    server.rotate_token()
    with pytest.raises(typed.ApiException) as caught:
        core.read_namespace("default")
    assert caught.value.status == 401
    token.write_text(server.token)
    assert core.read_namespace("default")


def _get_token_by_plugin(server: RealApiServer, tmp_path: Path) -> None:
    """Write a kubeconfig with a plugin that notes each of its runs."""
    program = f"""
import json, pathlib
runs = pathlib.Path({str(tmp_path / "runs")!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
token = json.loads(pathlib.Path({str(server.kubeconfig)!r}).read_text())["users"][0]["user"]["token"]
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": {{"token": token}}}}))
"""
    user = exec_plugin(tmp_path, program)
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user=user)


def test_exec_plugin_gives_the_token(server: RealApiServer, tmp_path: Path) -> None:
    """A plugin is run once while its token is good, and again when the token is refused."""
    _get_token_by_plugin(server, tmp_path)
    client = Client(tmp_path / "kubeconfig")
    for _ in range(3):
        assert client.get("v1/Namespace", "default")
    assert (tmp_path / "runs").read_text() == "x"
    server.rotate_token()
    assert client.get("v1/Namespace", "default")
    assert (tmp_path / "runs").read_text() == "xx"


def test_typed_api_shares_the_token_of_an_exec_plugin(server: RealApiServer, tmp_path: Path) -> None:
    """The plugin is run once for a Client and its typed API, and again when the token is refused."""
    _get_token_by_plugin(server, tmp_path)
    client = Client(tmp_path / "kubeconfig")
    core = typed.CoreV1Api(client.api_client())
    assert client.get("v1/Namespace", "default")
    assert core.read_namespace("default")
    assert (tmp_path / "runs").read_text() == "x"
    server.rotate_token()
    assert core.read_namespace("default")
    assert client.get("v1/Namespace", "default")
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_server_whose_certificate_is_not_checked_is_said_once(
    server: RealApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line that names the file, for any number of requests, Clients and connections."""
    cluster = {"server": server.url, "insecure-skip-tls-verify": True}
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster, user={"token": server.token})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            client = Client(tmp_path / "kubeconfig")
            for _ in range(2):
                assert client.get("v1/Namespace", "default")
            assert typed.CoreV1Api(client.api_client()).read_namespace("default")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert f"kubeconfig {tmp_path / 'kubeconfig'}: insecure-skip-tls-verify: " in record.message
    assert f"the certificate of {server.url} is not checked" in record.message
    assert warned == []


def test_exec_plugin_that_expires_is_run_again(server: RealApiServer, tmp_path: Path) -> None:
    """An expired token is replaced before it is used."""
    program = f"""
import json, pathlib
runs = pathlib.Path({str(tmp_path / "runs")!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
status = {{"token": {server.token!r}, "expirationTimestamp": "2020-01-01T00:00:00Z"}}
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""
    user = exec_plugin(tmp_path, program)
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user=user)
    client = Client(tmp_path / "kubeconfig")
    assert client.get("v1/Namespace", "default")
    assert len((tmp_path / "runs").read_text()) > 1


def test_an_expired_token_is_asked_for_once_and_not_by_each_request(tmp_path: Path) -> None:
    """While the plugin gives no better one: requests that wait for it together take its answer together."""
    program = f"""
import json, pathlib, time
with pathlib.Path({str(tmp_path / "runs")!r}).open("a") as runs:
    runs.write("x")
time.sleep(0.2)
status = {{"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""
    user = exec_plugin(tmp_path, program)
    with serving(Echo) as server:
        write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": server}, user=user)
        client = Client(tmp_path / "kubeconfig")
        assert client.server == server
        runs = len((tmp_path / "runs").read_text())
        requests = [threading.Thread(target=client.request, args=("GET", "/version")) for _ in range(8)]
        for request in requests:
            request.start()
        for request in requests:
            request.join()
    assert len((tmp_path / "runs").read_text()) - runs < 4  # one, or another where a thread began late


def test_requests_that_are_refused_together_share_a_plugin_that_fails(tmp_path: Path) -> None:
    """It may take its time to fail: none of them waits for it more than once."""
    program = f"""
import pathlib, sys, time
runs = pathlib.Path({str(tmp_path / "runs")!r})
with runs.open("a") as written:
    written.write("x")
if runs.read_text() != "x":
    time.sleep(1)
    sys.exit(1)
version = "client.authentication.k8s.io/v1"
print('{{"apiVersion": "%s", "kind": "ExecCredential", "status": {{"token": "t"}}}}' % version)
"""

    all_asked = threading.Barrier(8)

    class Refusing(Echo):
        def do_GET(self) -> None:  # noqa: N802  http.server calls it so
            with suppress(threading.BrokenBarrierError):  # each thread asks again with other credentials
                all_asked.wait(10)
            all_asked.abort()
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

    user = exec_plugin(tmp_path, program)
    with serving(Refusing) as server:
        write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": server}, user=user)
        client = Client(tmp_path / "kubeconfig")
        assert client.server == server
        refusals: list[ApiError] = []

        def ask() -> None:
            with pytest.raises(ApiError, match=r"no credentials: the exec plugin") as caught:
                client.request("GET", "/version")
            refusals.append(caught.value)

        requests = [threading.Thread(target=ask) for _ in range(8)]
        for request in requests:
            request.start()
        for request in requests:
            request.join()
    assert [refusal.status for refusal in refusals] == [401] * 8
    assert len((tmp_path / "runs").read_text()) < 5  # two, or another where a thread was slow


def test_exec_plugin_that_fails_is_named(tmp_path: Path) -> None:
    """A plugin that fails is a ConfigError, not a request without a user."""
    user = exec_plugin(tmp_path, "import sys; sys.exit(3)")
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": "http://127.0.0.1:1"}, user=user)
    with pytest.raises(ConfigError, match=r"no credentials: the exec plugin .*Run it to see why\."):
        Client(tmp_path / "kubeconfig").get("v1/Namespace", "default")


def test_exec_plugin_that_hangs_is_named_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it started, which may hold its output open; a Client waits for seconds, not for ever."""
    monkeypatch.setattr(plugins, "TIMEOUT", 5.0)  # a Python program begins within that also on a busy machine
    program = f"""
import os, time
child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child}}")
time.sleep(600)
"""
    user = exec_plugin(tmp_path, program)
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": "http://127.0.0.1:1"}, user=user)
    before = (tmp_path / "kubeconfig").read_text()
    with pytest.raises(
        ConfigError, match=r"the exec plugin \".*python.*\" .* gave none within .* s\. Run it"
    ):
        Client(tmp_path / "kubeconfig").get("v1/Namespace", "default")
    for process in (tmp_path / "pids").read_text().split():
        eventually(lambda process=process: not is_running(process))  # type: ignore[misc]  # bound now
    assert (tmp_path / "kubeconfig").read_text() == before


def is_running(process: str) -> bool:
    """Return whether it lives; a zombie process does not."""
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_that_is_forked_while_a_plugin_runs_reads_its_own_credentials(tmp_path: Path) -> None:
    """The thread that waits for the plugin is not in the child, nor may be what it held."""
    program = f"""
import pathlib, time
begun = pathlib.Path({str(tmp_path / "begun")!r})
if not begun.exists():
    begun.touch()
    time.sleep(3)
version = "client.authentication.k8s.io/v1"
print('{{"apiVersion": "%s", "kind": "ExecCredential", "status": {{"token": "t"}}}}' % version)
"""
    user = exec_plugin(tmp_path, program)
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": "http://127.0.0.1:1"}, user=user)
    forking = f"""
import os, pathlib, signal, threading, time
from distq.client import Client
client = Client({str(tmp_path / "kubeconfig")!r})
threading.Thread(target=lambda: client.server).start()
while not pathlib.Path({str(tmp_path / "begun")!r}).exists():
    time.sleep(0.01)
child = os.fork()
signal.alarm(30)
assert client.server == "http://127.0.0.1:1"
if child:
    assert os.waitpid(child, 0)[1] == 0
os._exit(0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", forking], check=True, timeout=60)


def test_exec_plugin_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As one that fails."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": "http://127.0.0.1:1"}, user=user)
    with pytest.raises(
        ConfigError, match=r'the exec plugin "no-such-plugin" .* failed\. Run it to see why\.'
    ):
        Client(tmp_path / "kubeconfig").get("v1/Namespace", "default")


def test_wrong_token_stays_out_of_messages(server: RealApiServer, tmp_path: Path) -> None:
    """A refused token is not shown."""
    write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user={"token": SECRET})
    with pytest.raises(ApiError) as caught:
        Client(tmp_path / "kubeconfig").request("GET", "/api")
    assert caught.value.status == 401
    assert SECRET not in str(caught.value)


def test_a_token_of_strange_characters_is_refused_and_not_shown(
    server: RealApiServer, tmp_path: Path
) -> None:
    """A token that cannot be sent is an ApiError that does not show it."""
    for token in (f"{SECRET}\nmore", f"{SECRET}é"):
        write_kubeconfig(tmp_path / "kubeconfig", cluster=cluster_of(server), user={"token": token})
        with pytest.raises(ApiError, match="a token of strange characters") as caught:
            Client(tmp_path / "kubeconfig").request("GET", "/api")
        assert SECRET not in str(caught.value)


def test_kubeconfig_argument_wins_over_the_variable(
    server: RealApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The argument comes first, then KUBECONFIG, read when the Client is used."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert Client(server.kubeconfig).server == server.url
    client = Client()
    with pytest.raises(ConfigError, match="absent does not exist"):
        client.server  # noqa: B018  the property is what is tested
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    assert client.server == server.url


def test_kubeconfig_variable_may_name_several_files(
    server: RealApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with kubectl, files are merged and absent ones do not matter."""
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{server.kubeconfig}")
    assert Client().get("v1/Namespace", "default")


@pytest.mark.usefixtures("no_cluster")
def test_home_kubeconfig_is_found(server: RealApiServer, tmp_path: Path) -> None:
    """Without argument and variable it is ``~/.kube/config``."""
    home = tmp_path / "home" / ".kube" / "config"
    home.parent.mkdir(parents=True)
    home.write_text(server.kubeconfig.read_text())
    assert Client().server == server.url


def test_kubeconfig_variable_that_changes_is_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Client of a module serves one sandbox after the other."""
    client = Client()
    for number in (1, 2):
        write_kubeconfig(tmp_path / f"{number}", cluster={"server": f"http://127.0.0.1:{number}"}, user={})
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / f"{number}"))
        assert client.server == f"http://127.0.0.1:{number}"


def test_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    """As with kubectl: what belongs to the deployment, such as its Lease, goes there."""
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": "http://127.0.0.1:1"}, user={})
    assert Client(tmp_path / "kubeconfig").namespace == "default"
    config = json.loads((tmp_path / "kubeconfig").read_text())
    config["contexts"][0]["context"]["namespace"] = "prod"
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    assert Client(tmp_path / "kubeconfig").namespace == "prod"


@pytest.mark.usefixtures("no_cluster")
def test_namespace_in_a_pod_is_the_pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The service account's mount has it."""
    for name, text in {"token": "t", "ca.crt": "c", "namespace": "prod\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(credentials, "POD_NAMESPACE", tmp_path / "namespace")
    cluster = credentials.load(None, None)
    assert cluster.namespace == "prod"
    assert cluster.configuration.host == "https://127.0.0.1:1"


def test_context_is_chosen(server: RealApiServer, tmp_path: Path) -> None:
    """``context`` picks one of the file's, and an unknown one is named."""
    config = json.loads(server.kubeconfig.read_text())
    config["clusters"].append({"name": "other", "cluster": {"server": "http://other:1"}})
    config["contexts"].append({"name": "other", "context": {"cluster": "other", "user": "test"}})
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    assert Client(tmp_path / "kubeconfig", context="other").server == "http://other:1"
    assert Client(tmp_path / "kubeconfig").server == server.url
    with pytest.raises(ConfigError, match="absent"):
        Client(tmp_path / "kubeconfig", context="absent").server  # noqa: B018  the property is what is tested


@pytest.mark.usefixtures("no_cluster")
def test_no_cluster_is_one_line_with_a_remedy() -> None:
    """Without any configuration the first use says what to set."""
    with pytest.raises(ConfigError) as caught:
        Client().get("v1/Pod", "default/web")
    assert str(caught.value) == (
        'no cluster: KUBECONFIG unset, no ~/.kube/config, not in a pod. Set it or try "distq sandbox".'
    )


@pytest.mark.usefixtures("no_cluster")
def test_a_pod_without_a_service_account_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod without a mounted token the message is about the token."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigError, match=r"in a pod, but: .*token.*Mount a service account\."):
        Client().get("v1/Pod", "default/web")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "- a\n- list",
        "just text",
        "a: [1",
        "\x00",
        f"users: [{{name: me, user: {{token: {SECRET}",
        json.dumps({"clusters": [], "contexts": [], "users": []}),
        json.dumps(
            {
                "current-context": "a",
                "clusters": [{"cluster": {"server": "http://other:1"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "me"}}],
                "users": [{"name": "me", "user": {"token": SECRET}}],
            }
        ),
        json.dumps(
            {
                "current-context": "a",
                "clusters": [{"name": "a", "cluster": {"server": "http://other:1"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "me"}}],
                "users": [{"name": "me", "token": SECRET}],
            }
        ),
        json.dumps(
            {
                "current-context": "a",
                "clusters": [
                    {"name": "a", "cluster": {"server": "https://o:1", "certificate-authority-data": "x"}}
                ],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "me"}}],
                "users": [{"name": "me", "user": {"token": SECRET}}],
            }
        ),
    ],
)
def test_broken_kubeconfig_is_named_without_its_secrets(tmp_path: Path, content: str) -> None:
    """For each fault of the file: one line that names it, and no token in it."""
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        Client(path).server  # noqa: B018  the property is what is tested
    message = str(caught.value)
    assert message.startswith(f"broken kubeconfig {path}: ")
    assert message.endswith(". Correct it.")
    assert "\n" not in message
    assert SECRET not in message


@pytest.mark.parametrize(
    "server_url", ["127.0.0.1:6443", "https://", "http://127.0.0.1:9999999", "ftp://a", ""]
)
def test_a_bad_server_address_gets_an_error(tmp_path: Path, server_url: str) -> None:
    """A server that is no URL of HTTP is found before anything is sent."""
    write_kubeconfig(tmp_path / "kubeconfig", cluster={"server": server_url}, user={})
    with pytest.raises(ConfigError, match=r"broken kubeconfig .*server"):
        Client(tmp_path / "kubeconfig").request("GET", "/api")


def test_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    """A folder in the file's place is a broken kubeconfig."""
    with pytest.raises(ConfigError, match=r"broken kubeconfig .*directory"):
        Client(tmp_path).server  # noqa: B018  the property is what is tested


@pytest.mark.parametrize("package", ["kubernetes", "msgspec", "urllib3"])
def test_missing_extra_is_named(package: str) -> None:
    """Without the extra the first use says how to install it."""
    program = f"""
import sys
sys.modules[{package!r}] = None
from distq.errors import ConfigError
try:
    from distq.client import Client, credentials
    Client().server
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "[kubernetes]'." in done.stdout
