"""What may be wrong with a service and its machine, looked at without changing anything.

Each check gives findings. ``note`` is worth knowing; only ``wrong`` wants somebody to act, and then
the advice says how. Nothing is sent to the upstream: a connection is opened and closed.
"""

import os
import platform
import shutil
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import httpx
from sqlite_utils import Migrations

from manage.remote import is_loopback
from manage.terminal import format_size, show
from store import clock, schema, spool
from store.condition import read_condition, read_newest_arrival
from store.heartbeat import Heartbeat
from store.locks import find_holder
from store.settings import Settings
from store.traces import find_trace_files

OLDEST_PYTHON = (3, 12)
OLDEST_SQLITE = (3, 35)  # RETURNING
HEALTH_TIMEOUT_S = 5.0
CONNECT_TIMEOUT_S = 10.0
# The clock of a machine without a battery starts at some instant of the past.
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
CLOCK_SLACK = timedelta(minutes=1)

type Verdict = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` says what to do, where there is something to do."""

    check: str
    verdict: Verdict
    message: str
    advice: str | None = None


def examine(settings: Settings) -> Iterator[Finding]:
    """Findings as they come: looking for an upstream may take its time."""
    yield check_python()
    yield from check_data_dir(settings.data_dir)
    yield check_free_space(settings)
    yield from check_service(settings)
    yield from check_databases(settings)
    yield from check_spool(settings)
    yield check_upstream(settings)
    yield check_prices(settings)
    yield check_clock(settings)


def check_python() -> Finding:
    versions = f"{platform.python_version()} with SQLite {sqlite3.sqlite_version}"
    if sys.version_info < OLDEST_PYTHON or sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = " and SQLite ".join(".".join(map(str, v)) for v in (OLDEST_PYTHON, OLDEST_SQLITE))
        return Finding("python", "wrong", f"{versions} is too old", f"install Python {needed}")
    return Finding("python", "ok", versions)


def check_data_dir(folder: Path) -> Iterator[Finding]:
    name = "data folder"
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield Finding(name, "note", f"{folder} is not there yet", "`taximeter up` makes it")
        return
    except OSError as error:
        yield Finding(name, "wrong", f"{folder}: {error.strerror}", _own(folder))
        return
    if not stat.S_ISDIR(status.st_mode):
        advice = "name a folder with --data-dir or TAXIMETER_DATA_DIR"
        yield Finding(name, "wrong", f"{folder} is no folder", advice)
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(name, "wrong", f"{folder} cannot be written by you", _own(folder))
    elif open_to_others := _open_to_others(folder):
        names = ", ".join(str(path) for path in open_to_others)
        advice = f"run `chmod -R go= {folder}`"
        yield Finding(name, "wrong", f"others on this machine can read {names}", advice)
    elif status.st_uid != os.geteuid():
        message = f"{folder} belongs to another user (id {status.st_uid})"
        yield Finding(name, "note", message, "run the service as that user")
    else:
        yield Finding(name, "ok", f"{folder}, yours alone")


def _own(folder: Path) -> str:
    return f"run as the user the service runs as, or give {folder} to this one with chown"


def _open_to_others(folder: Path) -> list[Path]:
    """A private folder protects what is in it; one that others may enter protects nothing."""
    candidates = (folder, folder / "control.db", folder / "traces", folder / "spool")
    if not folder.stat().st_mode & 0o077:
        return []
    return [path for path in candidates if path.exists() and path.stat().st_mode & 0o077]


def check_free_space(settings: Settings) -> Finding:
    name = "disk"
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{format_size(free)} free"
    if free < settings.disk_reserve:
        reserve = format_size(settings.disk_reserve)
        return Finding(
            name, "wrong", f"{message}, below the reserve of {reserve}: request bodies are not kept",
            "free some space, `taximeter prune --older-than 90d`, or lower TAXIMETER_DISK_RESERVE",
        )  # fmt: skip
    if free < 2 * settings.disk_reserve:
        advice = "`taximeter prune --older-than 90d` gives some back"
        return Finding(name, "note", f"{message}, which is getting short", advice)
    return Finding(name, "ok", message)


def check_service(settings: Settings) -> Iterator[Finding]:
    name = "service"
    try:
        holder = find_holder(settings.data_dir / "up.lock")
        recorder = find_holder(settings.data_dir / "recorder.lock")
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Finding(name, "wrong", message, _own(settings.data_dir))
        return
    if holder is None:
        yield _check_stopped(settings, recorder is not None)
        return
    who = f"running as process {holder.pid or 'unknown'}"
    heartbeat = Heartbeat.read(settings.data_dir)
    if heartbeat is None or not heartbeat.is_fresh:
        advice = "look at what `taximeter up` prints; calls wait in the spool meanwhile"
        yield Finding(name, "wrong", f"{who}, but its recorder gives no sign of life", advice)
        return
    yield _check_health(settings, who)


def _check_stopped(settings: Settings, recorder_runs: bool) -> Finding:
    name = "service"
    if recorder_runs:
        message = "not running, but a recorder is still at work on what it left"
        return Finding(name, "note", message, "wait until it has ended, then `taximeter up`")
    address = settings.listen.connectable
    try:
        socket.create_connection((address.host, address.port), timeout=1).close()
    except OSError:
        return Finding(name, "note", "not running", "`taximeter up` starts it")
    return Finding(
        name, "wrong", f"not running, and another program listens on {address}",
        "stop that one, or choose another address with TAXIMETER_LISTEN or --listen",
    )  # fmt: skip


def _check_health(settings: Settings, who: str) -> Finding:
    name = "service"
    url = f"{settings.base_url}/healthz"
    try:
        answer = httpx.get(
            url,
            timeout=HEALTH_TIMEOUT_S,
            verify=httpx.create_ssl_context(),
            trust_env=not is_loopback(settings.base_url),
        )
        reasons = answer.json().get("reasons", [])
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # From inside a network its public name may lead nowhere, and all is well.
        message = f"{who}, but {url} does not answer: {show(str(error))}"
        return Finding(name, "note", message, "check TAXIMETER_BASE_URL and what is in front of it")
    except (ValueError, AttributeError):
        message = f"{who}, but something else answers at {url}"
        return Finding(
            name, "wrong", message, "check TAXIMETER_BASE_URL and what is in front of it"
        )
    if answer.status_code != 200:
        message = f"{who}, failing: {show('; '.join(map(str, reasons)))}"
        return Finding(name, "wrong", message, "look at what `taximeter up` prints")
    return Finding(name, "ok", f"{who} at {settings.base_url}")


def check_databases(settings: Settings) -> Iterator[Finding]:
    found = [(settings.control_path, schema.control)] if settings.control_path.exists() else []
    found += [(path, schema.traces) for path in find_trace_files(settings.data_dir)]
    findings = [_check_database(path, migrations) for path, migrations in found]
    bad = [finding for finding in findings if finding is not None]
    yield from bad
    if not bad:
        message = f"all {len(found)} open and up to date" if found else "none yet"
        yield Finding("databases", "ok", message)


def _check_database(path: Path, migrations: Migrations) -> Finding | None:
    name = "databases"
    try:
        condition = read_condition(path, migrations)
    except sqlite3.Error as error:
        advice = "`taximeter verify` says what is damaged; restore it from a backup if need be"
        return Finding(name, "wrong", f"{path} cannot be read: {error}", advice)
    if condition.unknown:
        advice = "run the newer version that made it"
        return Finding(name, "wrong", f"{path} was changed by a newer Taximeter", advice)
    if condition.pending:
        message = f"{path} is of an older version"
        return Finding(name, "note", message, "it is brought up to date when it is next written to")
    return None


def check_spool(settings: Settings) -> Iterator[Finding]:
    name = "spool"
    root = settings.spool_path
    try:
        waiting = sum(1 for _ in spool.find_waiting(root))
        unreadable = spool.count_unreadable(root)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Finding(name, "wrong", message, _own(settings.data_dir))
        return
    if unreadable:
        folder = root / spool.UNREADABLE
        message = f"{unreadable} files could not be made entries"
        yield Finding(
            name, "wrong", f"{message} and are kept in {folder}",
            "look at the recorder's error lines, report them, then move these files away",
        )  # fmt: skip
    yield _check_backlog(Heartbeat.read(settings.data_dir), waiting)


def _check_backlog(heartbeat: Heartbeat | None, waiting: int) -> Finding:
    name = "spool"
    calls = f"{waiting:,} calls wait to be stored"
    if heartbeat is None or not heartbeat.is_fresh:
        if waiting:
            return Finding(name, "note", calls, "`taximeter up` stores them")
    elif heartbeat.stuck_organizations:
        message = f"{calls}, some for a database that cannot be written just now"
        return Finding(
            name, "wrong", message, "see the recorder's error lines: locked, full or damaged"
        )
    return Finding(name, "ok", calls if waiting else "nothing waits")


def check_upstream(settings: Settings) -> Finding:
    """Opens a connection, and TLS on it, as the proxy would; sends no request."""
    name = "upstream"
    upstream = settings.upstream_url
    try:
        with socket.create_connection(
            (upstream.host, upstream.port),
            min(settings.upstream_timeout.connect, CONNECT_TIMEOUT_S),
        ) as connection:
            if upstream.scheme == "https":
                # Certificates as the proxy has them: SSL_CERT_FILE, else those bundled with it.
                context = httpx.create_ssl_context()
                context.wrap_socket(connection, server_hostname=upstream.host).close()
    except ssl.SSLCertVerificationError as error:
        message = f"{upstream}: its certificate is not trusted: {error.verify_message}"
        advice = "behind a TLS inspector, point SSL_CERT_FILE at its certificates; check the clock"
        return Finding(name, "wrong", message, advice)
    except socket.gaierror as error:
        message = f"{upstream}: its name is not known: {error.strerror}"
        return Finding(
            name, "wrong", message, "check TAXIMETER_UPSTREAM_URL and this machine's DNS"
        )
    except TimeoutError:
        advice = "check the network and its firewall, and TAXIMETER_UPSTREAM_URL"
        return Finding(name, "wrong", f"{upstream} does not answer in time", advice)
    except OSError as error:
        message = f"{upstream} cannot be reached: {error.strerror or error}"
        advice = "check the network and its firewall, and TAXIMETER_UPSTREAM_URL"
        return Finding(name, "wrong", message, advice)
    return Finding(name, "ok", f"{upstream} can be reached")


def check_prices(settings: Settings) -> Finding:
    name = "prices"
    if settings.prices is None:
        return Finding(name, "ok", "the built-in list")
    # Only the recorder knows how to read it. With no entries to price, reading is all it does.
    with tempfile.TemporaryDirectory() as empty:
        environ = os.environ | {
            "TAXIMETER_DATA_DIR": empty,
            "TAXIMETER_PRICES": str(settings.prices),
        }
        done = subprocess.run(
            [sys.executable, "-P", "-m", "recorder.reprice"],
            env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it cannot be read"]
        message = show(lines[-1].removeprefix("Error: "))
        return Finding(name, "wrong", message, "mend this file, or unset TAXIMETER_PRICES")
    return Finding(name, "ok", f"{settings.prices}, then the built-in list")


def check_clock(settings: Settings) -> Finding:
    name = "clock"
    now = clock.now()
    text = f"{clock.format_seconds(now)}"
    advice = "set the clock (timedatectl, or your system's settings)"
    if now < EARLIEST:
        return Finding(name, "wrong", f"{text} cannot be right", advice)
    newest = _find_newest_arrival(settings)
    if newest is not None and newest > clock.format_ms(now + CLOCK_SLACK):
        message = f"{text}, and yet a call was recorded at {newest}: the clock was or is wrong"
        return Finding(name, "wrong", message, advice)
    return Finding(name, "ok", text)


def _find_newest_arrival(settings: Settings) -> str | None:
    newest: list[str] = []
    for path in find_trace_files(settings.data_dir):
        try:
            arrival = read_newest_arrival(path)
        except sqlite3.Error:
            continue  # the check of the databases has said so
        if arrival is not None:
            newest.append(arrival)
    return max(newest, default=None)
