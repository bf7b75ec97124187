"""The deeds of the calls of a session: their tool uses, the first words of their responses, and the
types of the agents that made them."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from metering.client_hints import AGENT_TYPE
from store.database import bind_list, list_columns
from store.traces.calls.tool_uses import StoredUse, read_uses_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeds:
    """The deeds of calls, by row id. A call in none of these mappings has no known deeds.

    ``said`` has the first words of responses, and ``agent_types`` the agent types that clients stated."""

    uses: Mapping[int, Sequence[StoredUse]] = field(default_factory=dict)
    said: Mapping[int, str] = field(default_factory=dict)
    agent_types: Mapping[int, str] = field(default_factory=dict)


def read_deeds(connection: sqlite3.Connection, usage_ids: Sequence[int]) -> Deeds:
    """Return the deeds of these calls. Raises sqlite3.Error.

    Empty for a database that the recorder of this version has not opened yet."""
    if not list_columns(connection, "tool_uses"):
        return Deeds()
    rows = connection.execute(
        "select id, said_text, client_hints ->> ? from usage"
        " where id in (select value from json_each(?))",
        (f'$."{AGENT_TYPE}"', bind_list(usage_ids)),
    ).fetchall()
    return Deeds(
        uses=read_uses_of(connection, usage_ids),
        said={usage_id: said for usage_id, said, _ in rows if said},
        agent_types={usage_id: kind for usage_id, _, kind in rows if kind},
    )
