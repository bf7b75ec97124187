"""The secrets of settings: no file, line, page, command or process has them that does not need them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from runtime.settings import list_settings
from tests.live.command import call_here
from tests.live.service import START_S, Service
from tests.live.wire.checks import files_with

MARKER = "hunter2-marked-in-all-secrets"
ADDRESSES = {
    "cluster": f"redis://ann:{MARKER}@127.0.0.1:1/0",
    "upstream_proxy": f"http://ann:{MARKER}@127.0.0.1:1",
    "smtp_url": f"smtp://ann:{MARKER}@127.0.0.1:1",
}
NEEDED = {
    "MAIL_FROM": "meter@example.org",
    "GITHUB_CLIENT_ID": "github-id",
    "GOOGLE_CLIENT_ID": "google-id",
    "OTEL": "on",
}


class Alone(Service):
    """A node whose cluster has no server: it serves, and is not healthy."""

    def wait_healthy(self) -> None:
        self.wait_until(
            lambda: self.has_ended or (self.health() is not None and len(self.pids()) == 5),
            lambda: f"all of its processes, not {self.pids()}; /healthz is {self.health()}",
            patience_s=START_S,
        )
        assert not self.has_ended, self.output


def list_processes(service: Service) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Return the command and the environment of each process that was started, but those that have ended or
    are still copies of the one that starts them."""
    up = psutil.Process(service.pid)
    for process in up.children():
        with suppress(psutil.NoSuchProcess):
            command, environ = process.cmdline(), process.environ()
            if command != up.cmdline():
                yield command, environ


def test_secrets_are_nowhere_but_with_the_processes_that_need_them(tmp_path: Path) -> None:
    secrets = {
        each.name.upper(): ADDRESSES.get(each.name, MARKER)
        for each in list_settings()
        if each.is_secret
    }
    with Alone(tmp_path, "http://127.0.0.1:1", **secrets, **NEEDED) as service:
        service.wait_until(
            lambda: (service.data_dir / "cluster.json").exists(), "the state of the node"
        )
        assert files_with(service, MARKER.encode()) == []
        assert MARKER not in service.get("/healthz").body.decode()
        for command, environ in list_processes(service):
            assert MARKER not in str(command)
            if not any(
                each in command for each in ("addon", "manage.server", "extensions.cluster")
            ):
                assert MARKER not in str(environ), command
        for arguments in (("doctor",), ("doctor", "--json"), ("usage", "--json")):
            done = call_here(arguments, service.environment)
            assert done.stdout
            assert MARKER not in done.stdout + done.stderr
        service.terminate()
        assert "Taximeter in front of" in service.output
        assert MARKER not in service.output
        assert files_with(service, MARKER.encode()) == []


def test_a_start_that_is_refused_tells_no_password(tmp_path: Path) -> None:
    addresses = ("https://ann:{}@x.example", "https://ann:{}/y@x.example", "redis://{}@[x")
    for setting in list_settings():
        if setting.name in ("data_dir", "prices", "mail_from") or "client" in setting.name:
            continue  # whatever stands there is no address
        for address in addresses:
            environ = {
                "TAXIMETER_DATA_DIR": str(tmp_path),
                "TAXIMETER_WEBHOOK_NETWORKS": "nothing",  # the last: so no start succeeds
                setting.variable: address.format(MARKER),
            }
            done = call_here(("up", "--json"), environ)
            assert done.returncode != 0
            assert "TAXIMETER_" in done.stderr
            assert MARKER not in done.stdout + done.stderr
