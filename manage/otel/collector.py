"""The address of the collector, as the standard variables of OpenTelemetry have it.

They are read here too, without OpenTelemetry's packages: the supervisor notes the position of a collector
before the first call, and those packages are an extra that takes long to import.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

PREFIX = "OTEL_"
DEFAULT = "http://localhost:4318"


def find_collector(environ: Mapping[str, str]) -> str:
    """Return the address that spans are sent to, without a user and a password that may be in it."""
    parts = urlsplit(_find_endpoint(environ))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _find_endpoint(environ: Mapping[str, str]) -> str:
    traces = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if traces:
        return traces
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or DEFAULT
    return f"{base.removesuffix('/')}/v1/traces"


def without_otel(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without OpenTelemetry's variables, some of which are secrets."""
    return {name: text for name, text in environ.items() if not name.startswith(PREFIX)}
