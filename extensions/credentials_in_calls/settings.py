"""The setting of the search for credentials in calls."""

from runtime.setting import Setting
from runtime.setting_values import parse_switch

SEARCH = Setting(
    "credential_search",
    "on",
    parse_switch,
    "on: credentials in what calls add to a conversation are looked for and listed, redacted, for"
    " owners. off: they are not.",
)
