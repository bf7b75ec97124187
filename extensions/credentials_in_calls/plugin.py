"""The hooks of the search for credentials in calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from extensions.credentials_in_calls import FILE
from extensions.credentials_in_calls.settings import SEARCH
from runtime.extension_values import CallNotice, DataFile
from runtime.hooks import hookimpl
from runtime.setting import Setting
from runtime.settings import Settings
from store.traces.paths import trace_path

PAGE = "/secrets"


@hookimpl
def settings() -> Mapping[str, Sequence[Setting[Any]]]:
    return {"Data and prices": (SEARCH,)}


@hookimpl
def pages(site: Any) -> Sequence[Any]:
    found: Sequence[Any] = (
        import_module("extensions.credentials_in_calls.pages").SecretPages(site).routes()
    )
    return found


@hookimpl
def security_section(site: Any, visitor: Any) -> Any:
    return import_module("extensions.credentials_in_calls.pages").make_section(site, visitor)


@hookimpl
def call_notices(data_dir: Path, caller: Any, usage_ids: Sequence[int]) -> Mapping[int, CallNotice]:
    if caller.role != "owner":
        return {}
    path = trace_path(data_dir, caller.organization_id)
    findings = import_module("extensions.credentials_in_calls.findings")
    return {
        usage_id: _warn(f"{_name(count)} found in what this call added.")
        for usage_id, count in findings.count_in_calls(path, usage_ids).items()
    }


@hookimpl
def home_notice(data_dir: Path, caller: Any, since: str) -> CallNotice | None:
    if caller.role != "owner":
        return None
    path = trace_path(data_dir, caller.organization_id)
    findings = import_module("extensions.credentials_in_calls.findings")
    count, usage_id = findings.count_since(path, since)
    if not count:
        return None
    where = f"call {usage_id}" if count == 1 else f"calls, the last one in call {usage_id}"
    return _warn(f"{_name(count)} found in {where}: revoke {'it' if count == 1 else 'them'}.")


def _name(count: int) -> str:
    return "A credential was" if count == 1 else f"{count} credentials were"


def _warn(text: str) -> CallNotice:
    return CallNotice(text=text, address=PAGE, words="Credentials in calls")


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
