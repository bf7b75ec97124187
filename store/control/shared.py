"""The tables of ``control.db`` that other machines of the service need, in the order they are told.

What a proxy and a recorder look up, and what pages show that are made where calls are. Rows hold no secret of
a person: of keys they have digests, and the only addresses are those of people who are invited and of who
invited them. The one secret of the service is that of fingerprints: a credential has the same everywhere.
"""

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
