"""The hooks of the search for credentials in calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.hooks import hookimpl
from runtime.setting import Setting
from runtime.setting_values import parse_switch

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
