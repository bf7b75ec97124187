"""The hooks of the search for credentials in calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from extensions.credentials_in_calls import FILE
from runtime.data_file import DataFile
from runtime.hooks import hookimpl
from runtime.setting import Setting
from runtime.setting_values import parse_switch
from runtime.settings import Settings

SEARCH = Setting(
    "credential_search",
    "on",
    parse_switch,
    "on: credentials in what calls add to a conversation are looked for and listed, redacted, for"
    " owners. off: they are not.",
)


@hookimpl
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    return {"Data and prices": (SEARCH,)}


@hookimpl
def data_files() -> Sequence[DataFile]:
    about = "Findings of credentials. Copied before the traces, so that none is of a call that the copy lacks."
    migrations = "extensions.credentials_in_calls.findings"
    return (DataFile(f"traces/*/{FILE}", "copied as a database", about, migrations),)


@hookimpl
def recorder_work(
    settings: Settings, databases: Any, clock_s: Callable[[], float]
) -> Sequence[Any]:
    if not settings.of(SEARCH):
        return ()
    search = import_module("extensions.credentials_in_calls.search")
    return (search.SecretSearch(settings.data_dir, settings.control_path, databases, clock_s),)


@hookimpl
def calls_were_removed(path: Path, traces: Any, is_erased: bool) -> Iterator[None]:
    findings = import_module("extensions.credentials_in_calls.findings")
    findings.remove_missing(path, traces)
    while is_erased and not findings.empty_log(path):
        yield
