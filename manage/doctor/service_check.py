"""The check of the running service, by its announcement and its health check."""

import os
import socket
from collections.abc import Iterator
from importlib.metadata import version

import httpx

from manage.doctor.findings import Finding, advise_owner
from manage.http_client import load_trust_store
from manage.supervision.announcement import Announcement, relevant_variables
from runtime.child_troubles import read_troubles
from runtime.heartbeat import Heartbeat
from runtime.locks import find_holder
from runtime.safe_text import terminal_line
from runtime.settings import Settings

HEALTH_TIMEOUT_S = 5.0
_NAME = "service"
# The data directory was given to this command, and the addresses are those that the service got.
_MAY_DIFFER = frozenset({"TAXIMETER_DATA_DIR", "TAXIMETER_LISTEN", "TAXIMETER_BASE_URL"})


def check_service(settings: Settings, service: Announcement | None) -> Iterator[Finding]:
    """Yield findings on whether the service runs and is healthy.

    ``settings`` are those of the running service if they are known, otherwise of this environment."""
    try:
        holder = find_holder(settings.data_dir / "up.lock")
        recorder = find_holder(settings.data_dir / "recorder.lock")
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Finding(_NAME, "wrong", message, advise_owner(settings.data_dir))
        return
    if holder is None:
        yield _check_stopped(settings, recorder is not None)
        return
    if service is None:
        message = f"running as process {holder.pid or 'unknown'}, with unknown settings"
        advice = "it is starting, or of another version; the other checks are for this environment"
        yield Finding(_NAME, "note", message, advice)
        return
    yield from _check_running(settings, service)
    yield from _check_environment(service)


def _check_stopped(settings: Settings, recorder_runs: bool) -> Finding:
    if recorder_runs:
        message = "not running, but a recorder still works on calls of an earlier run"
        return Finding(_NAME, "note", message, "wait until it has ended, then `taximeter up`")
    address = settings.listen.connectable
    try:
        socket.create_connection((address.host, address.port), timeout=1).close()
    except OSError:
        message = "not running; the other checks are for this environment"
        return Finding(_NAME, "note", message, "`taximeter up` starts it")
    return Finding(
        _NAME, "wrong", f"not running, and another program listens on {address}",
        "stop that one, or choose another address with TAXIMETER_LISTEN or --listen",
    )  # fmt: skip


def _check_running(settings: Settings, service: Announcement) -> Iterator[Finding]:
    who = f"Taximeter {terminal_line(service.version)} running as process {service.pid} on {settings.listen}"
    heartbeat = Heartbeat.read(settings.data_dir)
    if heartbeat is None or not heartbeat.is_fresh:
        advice = "look at what `taximeter up` prints; calls wait in the spool meanwhile"
        message = (
            f"{who}, but its recorder has stopped updating its heartbeat{_last_lines(settings)}"
        )
        yield Finding(_NAME, "wrong", message, advice)
        return
    yield _check_health(settings, who)
    if not settings.is_local:
        yield _check_base_url(settings.base_url)


def _check_health(settings: Settings, who: str) -> Finding:
    """Check ``/healthz`` at the listen address, without what may be in front of the service."""
    url = f"http://{settings.listen.connectable}/healthz"
    try:
        response = httpx.get(url, timeout=HEALTH_TIMEOUT_S, trust_env=False)
        reasons = response.json().get("reasons", [])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{who}, but {url} does not respond: {terminal_line(str(error))}"
        return Finding(_NAME, "wrong", message, "look at what `taximeter up` prints")
    except (ValueError, AttributeError):
        message = f"{who}, but another program responds at {url}"
        return Finding(_NAME, "wrong", message, "stop that one, or choose another --listen address")
    if response.status_code != 200:
        message = (
            f"{who}, failing: {terminal_line('; '.join(map(str, reasons)))}{_last_lines(settings)}"
        )
        return Finding(_NAME, "wrong", message, "look at what `taximeter up` prints")
    return Finding(_NAME, "ok", f"{who}, at {settings.base_url}")


def _last_lines(settings: Settings) -> str:
    """Return the last log line of each process that is down, as text to append to a message."""
    last_lines = [
        f"the last line of the {trouble.name} process: {terminal_line(trouble.last_lines[-1])}"
        for trouble in read_troubles(settings.data_dir)
        if trouble.last_lines
    ]
    return "".join(f"; {each}" for each in last_lines)


def _check_base_url(base_url: str) -> Finding:
    """Check that the base URL leads to this service.

    No response is only a note, since a public name may not be reachable from inside a network."""
    name, url = "address", f"{base_url}/livez"
    advice = "check TAXIMETER_BASE_URL and what is in front of the service"
    try:
        response = httpx.get(url, timeout=HEALTH_TIMEOUT_S, verify=load_trust_store())
        is_ours = response.status_code == 200 and response.json().get("status") == "ok"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Finding(
            name, "note", f"{url} does not respond here: {terminal_line(str(error))}", advice
        )
    except OSError as error:
        advice = terminal_line(f"{error.filename}: {error.strerror}")
        return Finding(name, "note", f"{url} was not requested", advice)
    except (ValueError, AttributeError):
        is_ours = False
    if not is_ours:
        return Finding(name, "wrong", f"another program responds at {url}", advice)
    return Finding(name, "ok", f"{base_url} leads to the service")


def _check_environment(service: Announcement) -> Iterator[Finding]:
    """Yield findings on settings and version that differ between this environment and the service."""
    ours = relevant_variables(os.environ)
    differing = sorted(
        name
        for name in ours.keys() - _MAY_DIFFER
        if ours[name].strip() != service.variables.get(name, "").strip()
    )
    if differing:
        message = f"set differently here than in the running service: {', '.join(differing)}"
        advice = "the other checks are for the service; restart it to use the settings set here"
        yield Finding("settings", "note", message, advice)
    if service.version != version("taximeter"):
        message = (
            f"the service is {terminal_line(service.version)}, this program {version('taximeter')}"
        )
        yield Finding("version", "note", message, "restart the service to run the same version")
