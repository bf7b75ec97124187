"""The hooks of the reconciliation."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from extensions.reconcile import FILE
from runtime.extension_values import DataFile, PageLink
from runtime.hooks import hookimpl


@hookimpl
def data_files() -> Sequence[DataFile]:
    return (DataFile(f"traces/*/{FILE}", "copied", "The last reconciliation."),)


@hookimpl
def operations() -> Sequence[Any]:
    found: Sequence[Any] = import_module("extensions.reconcile.operations").OPERATIONS
    return found


@hookimpl
def pages(site: Any) -> Sequence[Any]:
    if not site.has_people:
        return ()
    pages = import_module("extensions.reconcile.pages").ReconciliationPages
    found: Sequence[Any] = pages(site.settings, site.visitors).routes()
    return found


@hookimpl
def page_links() -> Sequence[PageLink]:
    words = "Compare with upstream\N{RIGHT SINGLE QUOTATION MARK}s reports"
    return (PageLink(place="home", address="/reconciliation", words=words),)


@hookimpl
def commands() -> Mapping[str, str]:
    return {"reconcile": "extensions.reconcile.commands"}
