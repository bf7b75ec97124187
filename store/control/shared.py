"""The tables of ``control.db`` that are sent to other machines of the service, in this order.

They have what proxies and recorders look up, and what pages show on machines that have the calls.
Rows hold no secret of a person: keys are digests, and the only addresses are those of people who
are invited and of those who invited them. The only secret sent is the service's key of
fingerprints: a credential has the same fingerprint on every machine."""

from typing import Any

from store.control import (
    alerts,
    annotation_orders,
    api_keys,
    budgets,
    credential_names,
    database,
    endpoints,
    invitations,
    people,
    retention,
    run_attributes,
)
from store.control.records import Table

TABLES: tuple[Table[Any], ...] = (
    people.ORGANIZATIONS,
    endpoints.TABLE,
    api_keys.TABLE,
    budgets.TABLE,
    alerts.RULES,
    invitations.TABLE,
    credential_names.TABLE,
    annotation_orders.TABLE,
    retention.RULES,
    run_attributes.TABLE,
    database.SECRETS,
)
