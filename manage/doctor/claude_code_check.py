"""The check of the variables of Claude Code on this machine. Their values are not printed."""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from manage.claude_code.settings_files import MANAGED_FOLDER, read_settings_files
from manage.claude_code.variables import BASE_URL, FIRST_PARTY, FLAG, Sources, read_proxies
from manage.doctor.findings import Finding
from manage.doctor.upstream_checks import find_upstream
from runtime.http_proxies import UserProxies, covers, exempt_loopback
from runtime.safe_text import terminal_line
from runtime.setting_values import FIRST_PARTY_URL, is_loopback
from runtime.settings import Settings

VERSION_S = 10.0
# From here on neither the context window nor deferred tools depend on the base URL.
LIKE_DIRECT = (2, 1, 305)
_NAME = "claude code"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)", re.ASCII)
_PROXY_PATH = re.compile(r"/proxy/([^/]+)(?:/.*)?")


def check_claude_code(
    settings: Settings,
    environ: Mapping[str, str],
    folder: Path,
    managed_folder: Path = MANAGED_FOLDER,
    find_version: Callable[[], str | None] | None = None,
) -> Iterator[Finding]:
    """Yield findings on where the variables are set and what is wrong with them; none if they are not set."""
    sources = Sources.make(environ, read_settings_files(environ, folder, managed_folder))
    where = [
        f"{name} is set in {', '.join(terminal_line(each.name) for each in found)}"
        for name in (BASE_URL, *FIRST_PARTY)
        if (found := sources.find_all(name))
    ]
    if not where:
        return
    first = "; of several places the first counts" if any("," in each for each in where) else ""
    yield Finding(_NAME, "ok", "; ".join(where) + first)
    url = sources.find(BASE_URL) or ""
    slug = _find_slug(settings, url)
    if sources.is_on(FLAG) and (problem := _judge_flag(settings, url, slug)):
        yield problem
    if slug is None:
        return
    if _is_behind_proxy(sources, url):
        message = f"an HTTP proxy is set, which clients use for {BASE_URL} too: their calls fail"
        yield Finding(_NAME, "wrong", message, "add 127.0.0.1 and localhost to NO_PROXY")
    if not any(map(sources.find_all, FIRST_PARTY)):
        yield from _check_version((find_version or read_version)())
    message = "Remote Control does not work behind a base URL, whatever variables are set"
    yield Finding(_NAME, "note", message, "see docs/clients.md")


def _judge_flag(settings: Settings, url: str, slug: str | None) -> Finding | None:
    """Return a finding if the variable that passes our base URL off as the vendor's is wrong, or None."""
    if slug is None:
        is_another = "/proxy/" in url
        message = f"{FLAG} is set, and {BASE_URL} does not lead to this service"
        advice = f"unset it, or set {BASE_URL} to an endpoint"
        if is_another:
            advice = "unset it, unless that is another Taximeter that forwards to the vendor's API"
        return Finding(_NAME, "note" if is_another else "wrong", message, advice)
    upstream = find_upstream(settings, slug)
    if upstream is not None and upstream.is_first_party:
        return None
    message = (
        f"{FLAG} is set, and calls through {terminal_line(slug)} do not go to {FIRST_PARTY_URL}:"
        " another upstream may refuse them, and its prompt cache breaks with each call"
    )
    return Finding(_NAME, "wrong", message, "unset it")


def _is_behind_proxy(sources: Sources, url: str) -> bool:
    """Return whether clients would use an HTTP proxy for a base URL on this machine."""
    parts, proxies = urlsplit(url), read_proxies(sources)
    host, port = parts.hostname or "", parts.port or 80
    exempt = UserProxies.of(proxies).exempt
    return (
        is_loopback(host)
        and bool(exempt_loopback(proxies))
        and not any(covers(each, host, port) for each in exempt)
    )


def _check_version(text: str | None) -> Iterator[Finding]:
    found = _VERSION.match(text or "")
    if found is None or tuple(map(int, found.groups())) >= LIKE_DIRECT:
        return
    message = (
        f"version {found[0]} has less behind a base URL: its context window may be smaller, and all tools"
        " of MCP servers are in each call"
    )
    names = " and ".join(f"{name}={value}" for name, value in FIRST_PARTY.items())
    advice = f"install a newer one, or set {names} as `taximeter run` does"
    yield Finding(_NAME, "note", message, advice)


def read_version() -> str | None:
    """Return the output of ``claude --version``, None if it cannot be run."""
    try:
        done = subprocess.run(
            ["claude", "--version"],  # noqa: S607 - as people call it
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() or None


def _find_slug(settings: Settings, url: str) -> str | None:
    """Return the slug of this service's endpoint in a base URL, None for another URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    path = _PROXY_PATH.fullmatch(parts.path)
    is_public = url.startswith(f"{settings.base_url}/")
    is_here = is_loopback(parts.hostname or "") and port == settings.listen.port
    return path[1] if path is not None and (is_public or is_here) else None
