"""The address of the collector, from the standard variables of OpenTelemetry.

They are read here too, without OpenTelemetry's packages: the supervisor stores the position of a
collector before the first call, and those packages are an extra that is slow to import."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit, urlunsplit

from runtime.safe_text import terminal_line
from runtime.setting import SettingsError

DEFAULT = "http://localhost:4318"
DEFAULT_TIMEOUT_S = 10.0
MAX_TIMEOUT_S = 24 * 60 * 60.0
MAX_REASON = 300
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_LEAST_SECRET = 4  # characters


def find_collector(environ: Mapping[str, str]) -> str:
    """Return the URL that spans are sent to, without user, password, query and fragment.

    If no variable names one, it is that of a collector on this machine."""
    parts = urlsplit(_find_endpoint(environ))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _find_endpoint(environ: Mapping[str, str]) -> str:
    traces = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if traces:
        return traces
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or DEFAULT
    return f"{base.removesuffix('/')}/v1/traces"


def find_timeout_s(environ: Mapping[str, str]) -> float:
    """Return the maximum duration of an export in seconds, read as the library does.

    Raises SettingsError for a number that timers do not accept."""
    name = next((name for name in _TIMEOUTS if environ.get(name)), "")
    try:
        seconds = float(environ[name]) if name else DEFAULT_TIMEOUT_S
    except ValueError:
        return DEFAULT_TIMEOUT_S
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise SettingsError(
            f"{name} is {environ[name]!r}: write a number of seconds above 0, of a day at most"
        )
    return seconds


def list_secrets(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the texts in variables that may be credentials, the longest first."""
    found = set[str]()
    for header in ",".join(environ.get(name, "") for name in _HEADERS).split(","):
        value = header.partition("=")[2]
        for each in (header, value, unquote(value)):
            found |= {each.strip(), *each.split()}
    for name in _ENDPOINTS:
        parts = urlsplit(environ.get(name, "").strip())
        user = parts.netloc.rpartition("@")[0]
        found |= {
            parts.query,
            parts.fragment,
            *re.split("[:]", user),
            unquote(user.partition(":")[2]),
        }
        found |= {each.partition("=")[2] for each in parts.query.split("&")}
    return sorted((each for each in found if len(each) >= _LEAST_SECRET), key=len, reverse=True)


def explain(reason: str, secrets: Sequence[str]) -> str:
    """Return an error message of the library or the collector as a log line, without ``secrets``."""
    for secret in secrets:
        reason = reason.replace(secret, "…")
    return terminal_line(reason)[:MAX_REASON]
