import os
import platform
import signal
import subprocess
import sys

import pytest

from manage.supervision.child_environ import (
    CREDENTIAL_VARIABLES,
    GIVING_BACK,
    give_back_memory,
    make_query_environ,
    make_web_environ,
)
from manage.supervision.run_service import RunService
from manage.supervision.supervisor import Supervisor
from runtime.settings import Settings

SECRET = "sk-ant-admin01-made-up-for-tests"


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "data").mkdir()
    return Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
            "TAXIMETER_LISTEN": "127.0.0.1:0",
            "TAXIMETER_WORKERS": "2",
        }
    )


async def test_no_process_of_the_service_gets_a_credential(settings, monkeypatch):
    """Only the command that uses the key of the Admin API needs it."""
    environs = {}

    async def keep(self, child, environ):
        environs[child.name] = environ
        self._request_stop()

    monkeypatch.setattr(Supervisor, "_keep", keep)
    handled = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    supervisor = Supervisor(settings)
    try:
        await supervisor.run({"PATH": "/bin", **dict.fromkeys(CREDENTIAL_VARIABLES, SECRET)})
    finally:
        supervisor.close()
        signal.signal(signal.SIGINT, handled[0])
        signal.signal(signal.SIGTERM, handled[1])
    assert "ANTHROPIC_ADMIN_KEY" in CREDENTIAL_VARIABLES
    assert environs.keys() == {"proxy-1", "proxy-2", "recorder", "web", "queries"}
    assert [name for name, environ in environs.items() if SECRET in environ.values()] == []
    assert [name for name, environ in environs.items() if "PATH" in environ] == [
        "recorder", "web", "proxy-1", "proxy-2",
    ]  # fmt: skip
    assert all(
        environs[name].items() >= GIVING_BACK.items() for name in environs.keys() - {"queries"}
    )
    assert [name for name, environ in environs.items() if "MALLOC_ARENA_MAX" in environ] == [
        "queries", "web",
    ]  # fmt: skip


# After the first large block is freed, glibc takes the next ones from where small ones hold them.
TAKING_LARGE_BLOCKS = """
import re
for _ in range(2):
    large, after = bytearray(24 << 20), bytearray(100_000)
    kept = bytearray(50_000)
    del large
print(*re.findall(r"RssAnon:[^0-9]+([0-9]+)", open("/proc/self/status").read()))
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="other C libraries do not keep it; a Linux with glibc runs this",
)
def test_a_process_gives_back_the_memory_of_large_bodies():
    def measure_mb(environ):
        command = [sys.executable, "-I", "-S", "-c", TAKING_LARGE_BLOCKS]
        done = subprocess.run(command, env=environ, capture_output=True, check=True)  # noqa: S603
        return int(done.stdout) / 1000

    plain = {"PATH": os.defpath}
    assert measure_mb(plain) - measure_mb(give_back_memory(plain)) > 20


def test_a_service_that_is_started_for_a_run_gets_no_credential(settings, monkeypatch):
    """The client has it; the service goes on while other runs use it."""
    for name in CREDENTIAL_VARIABLES:
        monkeypatch.setenv(name, SECRET)
    started = []
    monkeypatch.setattr(
        "manage.supervision.run_service.subprocess.Popen",
        lambda command, **options: started.append(options["env"]),
    )
    service = RunService.__new__(RunService)
    service._data_dir = settings.data_dir
    service._start(settings, "127.0.0.1:0")
    (environ,) = started
    assert SECRET not in environ.values()
    assert environ["PATH"] == os.environ["PATH"]


def test_query_processes_get_no_setting_but_the_format_of_their_log():
    environ = make_query_environ(
        {
            "TAXIMETER_SMTP_URL": SECRET,
            "TAXIMETER_LOG_FORMAT": "json",
            "PATH": "/bin",
            "TZ": "UTC",
        }
    )
    assert environ == {"TAXIMETER_LOG_FORMAT": "json", "TZ": "UTC", "MALLOC_ARENA_MAX": "1"}


def test_the_web_process_looks_for_no_plugins_of_pydantic_unless_somebody_asks_for_them():
    name = "PYDANTIC_DISABLE_PLUGINS"
    assert make_web_environ({})[name] == "__all__"
    assert make_web_environ({name: "other"})[name] == "other"
