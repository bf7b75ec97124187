"""The key for upstream's reports: read from the environment, held in memory, and sent only to
upstream.

An Admin API key reads all reports. The analytics reports can also be read by an organisation's key
with the scope ``read:analytics``. Such a key begins like keys for calls, and only upstream knows its
scopes. (Source: the vendor's "Create an Admin API key", 2026-11-23.)"""

import os
import re
from collections.abc import Mapping

VARIABLE = "ANTHROPIC_ADMIN_KEY"
_SUBSCRIPTION = "sk-ant-oat"
_ADMIN, _SCOPED = "sk-ant-admin", "sk-ant-api"
_KEY = re.compile(r"sk-ant-[A-Za-z0-9_-]{8,500}", re.ASCII)
_CREATE = (
    "an admin of the organisation creates an Admin API key (sk-ant-admin…) in the Claude Console under"
    " Settings, Admin keys"
)
_CREATE_SCOPED = (
    ", or the primary owner of a Claude Enterprise organisation a key with the scope read:analytics in"
    " claude.ai under Organization settings, API"
)


class ReportError(Exception):
    """Upstream's reports cannot be read. The message is one line, safe to print."""


class AdminKeyError(ReportError):
    """There is no usable key for reports, or upstream refuses it."""


def read_admin_key(environ: Mapping[str, str] = os.environ, *, analytics: bool = False) -> str:
    """Return the key from the environment: an Admin API key, or for ``analytics`` also an organisation's
    key.

    Any other value is refused, so that a credential that was put there by mistake is not sent. Raises
    AdminKeyError, whose message never quotes the value."""
    key = environ.get(VARIABLE, "").strip()
    create = _advise(analytics)
    if not key:
        raise AdminKeyError(f"there is no key in the environment variable {VARIABLE}; {create}")
    if key.startswith(_SUBSCRIPTION):
        raise AdminKeyError(
            f"{VARIABLE} has the token of a subscription (sk-ant-oat…), which cannot read reports;"
            f" {create}"
        )
    if not _KEY.fullmatch(key):
        raise AdminKeyError(
            f"{VARIABLE} is not a key of the Admin API, which starts with sk-ant-admin; {create}"
        )
    if not key.startswith((_ADMIN, _SCOPED) if analytics else _ADMIN):
        raise AdminKeyError(
            f"{VARIABLE} has another key (sk-ant-api…), which cannot read these reports; if it has the"
            f" scope read:analytics, name --analytics. Otherwise {create}"
        )
    return key


def explain_refusal(status: int, *, analytics: bool = False) -> str:
    """Return the advice for a key that upstream refuses with 401 or 403."""
    create = _advise(analytics)
    if status == 401:
        return f"upstream does not accept the key in {VARIABLE}; it may have been deleted. Otherwise {create}"
    return (
        f"the key in {VARIABLE} may not read usage and cost reports; they are for admins of an"
        f" organisation, and not for individual accounts. Otherwise {create}"
    )


def _advise(analytics: bool) -> str:
    return _CREATE + _CREATE_SCOPED if analytics else _CREATE
