"""The Admin API key. It is read from the environment, held in memory and sent upstream, nothing else."""

import os
import re
from collections.abc import Mapping

from extensions.reconcile.errors import AdminKeyError

VARIABLE = "ANTHROPIC_ADMIN_KEY"
_SUBSCRIPTION = "sk-ant-oat"
_ADMIN = "sk-ant-admin"
_KEY = re.compile(r"sk-ant-[A-Za-z0-9_-]{8,500}", re.ASCII)
_CREATE = (
    "an admin of the organisation creates an Admin API key (sk-ant-admin…) in the Claude Console under"
    " Settings, Admin keys"
)


def read_admin_key(environ: Mapping[str, str] = os.environ) -> str:
    """Return the Admin API key from the environment.

    Any other value is refused, so that a credential that was put there by mistake is not sent. Raises
    AdminKeyError, whose message never quotes the value."""
    key = environ.get(VARIABLE, "").strip()
    if not key:
        raise AdminKeyError(f"there is no key in the environment variable {VARIABLE}; {_CREATE}")
    if key.startswith(_SUBSCRIPTION):
        raise AdminKeyError(
            f"{VARIABLE} has the token of a subscription (sk-ant-oat…), which cannot read reports;"
            f" {_CREATE}"
        )
    if not _KEY.fullmatch(key):
        raise AdminKeyError(
            f"{VARIABLE} is not a key of the Admin API, which starts with sk-ant-admin; {_CREATE}"
        )
    if not key.startswith(_ADMIN):
        raise AdminKeyError(
            f"{VARIABLE} has a key for calls (sk-ant-api…), which cannot read reports; {_CREATE}"
        )
    return key


def explain_refusal(status: int) -> str:
    """Return what to do about a key that upstream refuses with 401 or 403."""
    if status == 401:
        return f"upstream does not accept the key in {VARIABLE}; it may have been deleted. Otherwise {_CREATE}"
    return (
        f"the key in {VARIABLE} may not read usage and cost reports; they are for admins of an"
        f" organisation, and not for individual accounts. Otherwise {_CREATE}"
    )
