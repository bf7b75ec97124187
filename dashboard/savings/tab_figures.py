"""The main figures of the tabs Findings, Tools and Another model, shown beside their names."""

import sqlite3
from datetime import date

from conversations.savings.kinds import AVOIDABLE
from store.traces.savings.savings_reader import SavingsReader
from store.traces.savings.tools_reader import ToolFilter, ToolsReader

type TabFigures = dict[str, float]


def read_tab_figures(connection: sqlite3.Connection | None, first: date, last: date) -> TabFigures:
    """Return the possible savings and the cost of tools in US cents, by the names of their tabs.

    Both days are included. The result is empty if nothing is known. Raises sqlite3.Error."""
    if connection is None:
        return {}
    savings, tools = SavingsReader(connection), ToolsReader(connection)
    if not savings.is_ready or not tools.is_ready:
        return {}
    return {
        "findings": savings.sum_cents(first, last, AVOIDABLE),
        "tools": tools.sum_cents(ToolFilter(first=first, last=last)),
    }
