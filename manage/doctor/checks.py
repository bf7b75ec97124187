"""Checks of a service and its machine, which change nothing.

Each check returns findings. A ``note`` is worth knowing; ``wrong`` needs action, and the advice
says which. No request is sent to the upstream: a connection is opened and closed.
"""

import os
import platform
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from manage.doctor.claude_code_check import check_claude_code
from manage.doctor.database_checks import check_databases
from manage.doctor.extension_checks import check_extensions
from manage.doctor.findings import Finding, advise_owner
from manage.doctor.live_check import check_live
from manage.doctor.service_check import check_service
from manage.doctor.transparency import check_transparency
from manage.doctor.upstream_checks import check_upstreams, make_trust
from manage.supervision.announcement import TRUST_VARIABLE, Announcement, relevant_variables
from metering.formats import format_bytes, format_calls, format_number
from metering.price_file_error import PriceFileError
from metering.prices import OWN_LABEL, list_built_in_versions
from runtime import clock
from runtime.heartbeat import Heartbeat
from runtime.installing import (
    DATASETTE_VERSIONS,
    MITMPROXY_NEWEST,
    MITMPROXY_OLDEST,
    MITMPROXY_TRIED,
    command_for,
)
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.price_file import load_prices
from store.spool import reader
from store.spool.format import UNREADABLE
from store.traces.calls.reader import read_newest_arrival
from store.traces.paths import find_trace_files

OLDEST_PYTHON = (3, 12)
OLDEST_SQLITE = (3, 35)  # RETURNING
# The clock of a machine without a battery starts at some instant of the past.
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
CLOCK_SLACK = timedelta(minutes=1)
OLD_PRICES = timedelta(days=90)


def examine(
    settings: Settings,
    service: Announcement | None = None,
    *,
    echo: bool = False,
    live_slug: str | None = None,
) -> Iterator[Finding]:
    """Yield the findings of all checks one by one, since a connection to the upstream may take a while.

    ``echo`` adds the trial of a proxy with these settings, ``live_slug`` a real request through this
    endpoint. If a service runs, ``service`` is its announcement, and ``settings`` are its settings;
    otherwise both checks and settings are those of a service that would be started in this
    environment."""
    yield from check_service(settings, service)
    yield check_python(*_versions(service))
    yield check_mitmproxy(version("mitmproxy"), ask_proxy)
    yield check_datasette(version("datasette"))
    yield from check_data_dir(settings.data_dir.absolute())
    yield check_free_space(settings)
    yield from check_databases(settings)
    yield from check_spool(settings)
    trust = os.environ if service is None else service.variables
    yield from check_upstreams(settings, trust.get(TRUST_VARIABLE))
    yield check_prices(settings)
    yield check_clock(settings)
    yield from check_extensions(settings, is_running=service is not None)
    yield from check_claude_code(settings, os.environ, Path.cwd())
    if echo:
        variables = relevant_variables(os.environ) if service is None else service.variables
        yield from check_transparency(settings, variables)
    if live_slug is not None:
        context = make_trust(trust.get(TRUST_VARIABLE))
        yield from check_live(settings, live_slug, os.environ, context)


def _versions(service: Announcement | None) -> tuple[str, str]:
    if service is None:
        return platform.python_version(), sqlite3.sqlite_version
    return service.python, service.sqlite


def check_python(python: str, sqlite: str) -> Finding:
    versions = f"{terminal_line(python)} with SQLite {terminal_line(sqlite)}"
    if _numbers(python) < OLDEST_PYTHON or _numbers(sqlite) < OLDEST_SQLITE:
        needed = " and SQLite ".join(".".join(map(str, v)) for v in (OLDEST_PYTHON, OLDEST_SQLITE))
        return Finding("python", "wrong", f"{versions} is too old", f"install Python {needed}")
    return Finding("python", "ok", versions)


def check_mitmproxy(installed: str, ask: Callable[[], str | None]) -> Finding:
    """Check whether the proxy starts with the installed version of mitmproxy.

    ``ask`` is called for a version that was not tested, and returns the error of the proxy, or None."""
    name, shown = "mitmproxy", terminal_line(installed)
    if _numbers(MITMPROXY_OLDEST) <= _numbers(installed) <= _numbers(MITMPROXY_NEWEST):
        return Finding(name, "ok", shown)
    complaint = ask()
    if complaint is not None:
        return Finding(name, "wrong", f"the proxy does not start: {terminal_line(complaint)}")
    message = f"{shown} was not tried (those up to {MITMPROXY_NEWEST} were), but has what the proxy replaces"
    return Finding(name, "note", message, f"if calls fail, run `{command_for(MITMPROXY_TRIED)}`")


def ask_proxy() -> str | None:
    """Run the proxy's own check of the mitmproxy functions that it depends on. Return its error, or None."""
    command = [sys.executable, "-P", "-m", "addon", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if not done.returncode:
        return None
    said = done.stderr.strip().splitlines() or [f"it ends with status {done.returncode}"]
    return said[-1].removeprefix("taximeter: ")


def check_datasette(installed: str) -> Finding:
    """Check whether the installed Datasette is a version that the pages of tables were tested with."""
    name = "datasette"
    if installed in DATASETTE_VERSIONS:
        return Finding(name, "ok", installed)
    message = f"{terminal_line(installed)} is not a version that the pages of tables are known to work with"
    known = command_for(f"datasette=={DATASETTE_VERSIONS[-1]}")
    advice = f"if the log of `taximeter up` says that it changed what they depend on, run `{known}`"
    return Finding(name, "note", message, advice)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (3, 13, 0) for ``3.13.0rc1``."""
    return tuple(int(number) for number in re.findall(r"(?:^|(?<=\.))\d+", text))


def check_data_dir(folder: Path) -> Iterator[Finding]:
    name = "data folder"
    try:
        status = folder.stat()
    except FileNotFoundError:
        yield Finding(name, "note", f"{folder} is not there yet", "`taximeter up` creates it")
        return
    except OSError as error:
        yield Finding(name, "wrong", f"{folder}: {error.strerror}", advise_owner(folder))
        return
    if not stat.S_ISDIR(status.st_mode):
        advice = "name a directory with --data-dir or TAXIMETER_DATA_DIR"
        yield Finding(name, "wrong", f"{folder} is not a directory", advice)
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(name, "wrong", f"{folder} cannot be written by you", advise_owner(folder))
    elif open_to_others := _open_to_others(folder):
        names = ", ".join(str(path) for path in open_to_others)
        advice = f"run `chmod -R go= {folder}`"
        yield Finding(name, "wrong", f"others on this machine can read {names}", advice)
    elif strangers := _find_strangers(folder, status.st_uid):
        message = f"{strangers[0]} does not belong to the owner of {folder} (id {status.st_uid})"
        advice = f"run `chown -R {status.st_uid} {folder}`; do not run commands as another user"
        yield Finding(name, "wrong", message, advice)
    elif status.st_uid != os.geteuid():
        message = f"{folder} belongs to another user (id {status.st_uid})"
        yield Finding(name, "note", message, "run the service as that user")
    else:
        yield Finding(name, "ok", f"{folder}, yours alone")


def _open_to_others(folder: Path) -> list[Path]:
    """Return the paths that others can access, empty if the folder itself is private."""
    candidates = (folder, folder / "control.db", folder / "traces", folder / "spool")
    if not folder.stat().st_mode & 0o077:
        return []
    return [path for path in candidates if path.exists() and path.stat().st_mode & 0o077]


def _find_strangers(folder: Path, owner: int) -> list[Path]:
    """Return the files and folders that another user owns, for example after a command run by root."""
    candidates = [folder / "control.db", folder / "spool", folder / "traces"]
    for path in find_trace_files(folder):
        candidates += (path.parent, path)
    return [path for path in candidates if path.exists() and path.stat().st_uid != owner]


def check_free_space(settings: Settings) -> Finding:
    name = "disk"
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{format_bytes(free)} free"
    if free < settings.disk_reserve:
        reserve = format_bytes(settings.disk_reserve)
        return Finding(
            name, "wrong", f"{message}, below the reserve of {reserve}: request bodies are not kept",
            "free some space, `taximeter prune --older-than 90d`, or lower TAXIMETER_DISK_RESERVE",
        )  # fmt: skip
    if free < 2 * settings.disk_reserve:
        advice = "`taximeter prune --older-than 90d` frees some"
        return Finding(name, "note", f"{message}, which is getting short", advice)
    return Finding(name, "ok", message)


def check_spool(settings: Settings) -> Iterator[Finding]:
    name = "spool"
    root = settings.spool_path
    try:
        waiting = sum(1 for _ in reader.find_waiting(root))
        unreadable = reader.count_unreadable(root)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Finding(name, "wrong", message, advise_owner(settings.data_dir))
        return
    if unreadable:
        folder = root / UNREADABLE
        message = f"{format_number(unreadable, 'file')} could not be recorded"
        yield Finding(
            name, "wrong", f"{message}, kept in {folder}",
            "see the recorder's errors in the output of `taximeter up`, report them, then move these files away",
        )  # fmt: skip
    yield _check_backlog(Heartbeat.read(settings.data_dir), waiting)


def _check_backlog(heartbeat: Heartbeat | None, waiting: int) -> Finding:
    name = "spool"
    calls = f"{format_calls(waiting)} waiting to be recorded"
    if heartbeat is None or not heartbeat.is_fresh:
        if waiting:
            return Finding(name, "note", calls, "`taximeter up` records them")
    elif heartbeat.stuck_organizations:
        message = f"{calls}, some for a database that cannot be written at the moment"
        return Finding(
            name, "wrong", message, "see the recorder's error lines: locked, full or damaged"
        )
    return Finding(name, "ok", calls if waiting else "nothing waiting")


def check_prices(settings: Settings) -> Finding:
    name = "prices"
    built_in = f"the built-in lists ({', '.join(list_built_in_versions())})"
    if (age := _find_age_of_prices()) > OLD_PRICES:
        message = f"{built_in} were last looked up {age.days} days ago"
        advice = (
            "install a newer version, or write newer ones down in a price file (docs/prices.md)"
        )
        return Finding(name, "note", message, advice)
    try:
        table = load_prices(settings.prices)
    except PriceFileError as error:
        return Finding(
            name, "wrong", terminal_line(str(error)), "correct this file, or unset TAXIMETER_PRICES"
        )
    if unpriced := sorted(settings.upstreams.keys() - table.upstreams):
        message = f"none for the upstream {', '.join(unpriced)}, so calls to it have no cost"
        advice = "name it in a price file (docs/upstreams.md)"
        return Finding(name, "note", message, advice)
    if settings.prices is None:
        return Finding(name, "ok", built_in)
    return Finding(name, "ok", f"{settings.prices}, then {built_in}")


def _find_age_of_prices() -> timedelta:
    """Return the age of our built-in price list, whose version ends with its date."""
    days = [each.rpartition(" ")[2] for each in list_built_in_versions() if OWN_LABEL in each]
    return clock.now() - datetime.fromisoformat(max(days)).replace(tzinfo=UTC)


def check_clock(settings: Settings) -> Finding:
    name = "clock"
    now = clock.now()
    text = f"{clock.format_seconds(now)}"
    advice = "set the clock (timedatectl, or your system's settings)"
    if now < EARLIEST:
        return Finding(name, "wrong", f"{text} cannot be right", advice)
    newest = _find_newest_arrival(settings)
    if newest is not None and newest > clock.format_ms(now + CLOCK_SLACK):
        message = f"{text}, but a call was recorded at {newest}: the clock is or was wrong"
        return Finding(name, "wrong", message, advice)
    return Finding(name, "ok", text)


def _find_newest_arrival(settings: Settings) -> str | None:
    newest: list[str] = []
    for path in find_trace_files(settings.data_dir):
        try:
            arrival = read_newest_arrival(path)
        except sqlite3.Error:
            continue  # reported by the check of the databases
        if arrival is not None:
            newest.append(arrival)
    return max(newest, default=None)
