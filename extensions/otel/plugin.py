"""The hooks of the export to OpenTelemetry."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from extensions.otel import FILE
from runtime.extension_values import DataFile, ProcessSpec
from runtime.hooks import hookimpl
from runtime.setting import Setting
from runtime.settings import Settings

_VARIABLES = "OTEL_"  # of OpenTelemetry itself; headers in them are credentials

type Export = Literal["off", "on", "bodies"]


def parse_export(text: str) -> Export:
    if text in ("off", "on", "bodies"):
        return text  # type: ignore[return-value]  # it is one of them
    raise ValueError("write off, on or bodies")


OTEL = Setting(
    "otel",
    "off",
    parse_export,
    "on: each finished call is sent to an OpenTelemetry collector, which the standard variables"
    " OTEL_EXPORTER_OTLP_… name. bodies: with its request and response.",
)


@hookimpl
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    return {"Logs and metrics": (OTEL,)}


@hookimpl
def data_files() -> Sequence[DataFile]:
    about = (
        "How far each collector has come: after a restore it gets what is recorded from then on."
    )
    return (DataFile(FILE, "left out", about),)


@hookimpl
def before_start(
    settings: Settings, environ: Mapping[str, str], warn: Callable[[str], None]
) -> None:
    """Store the position of a new collector, so that it gets only calls recorded from now on."""
    if settings.of(OTEL) == "off":
        return
    collector = import_module("extensions.otel.collector").find_collector(environ)
    try:
        import_module("extensions.otel.positions").begin(settings.data_dir, collector)
    except (sqlite3.Error, OSError) as error:
        # The exporting process does it too, later, and says what is wrong.
        warn(f"otel.db cannot be written: {error}")


@hookimpl
def processes(settings: Settings, environ: Mapping[str, str]) -> Sequence[ProcessSpec]:
    if settings.of(OTEL) == "off" or "recorder" not in settings.node.parts:
        return ()
    given = {name: text for name, text in environ.items() if name.startswith(_VARIABLES)}
    return (ProcessSpec(name="otel", module="extensions.otel", variables=given),)


@hookimpl
def private_variables() -> Sequence[str]:
    return (_VARIABLES,)


@hookimpl
def metrics(data_dir: Path) -> Iterable[Any]:
    found: Iterable[Any] = import_module("extensions.otel.metrics").make_metrics(data_dir)
    return found
