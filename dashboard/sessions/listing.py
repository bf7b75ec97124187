"""The list of sessions: one page of it, with the chosen filters and the filters on offer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.addresses import query_address
from dashboard.call_filters import TAG_PREFIX, CallFilters, Chip
from metering.attribution import PROJECT, USER
from metering.credential_names import name_credential
from store.traces.sessions.session_list import Listed
from store.traces.sessions.session_reader import Session, SessionReader

PATH = "/sessions"
MOST_VALUES = 12  # of a column, in the menu of filters
_FLAGS = (
    ("failed", "A call failed"),
    ("tool_failed", "A tool failed"),
    ("cache_break", "Broke the cache"),
)
_COLUMNS = (("endpoint", "slug", "Endpoint"), ("client", "client", "Client"),
            ("credential", "credential_hmac", "Credential"))  # fmt: skip
_COLUMNS_OF_CALLS = (("model", "model", "Model"), (f"{TAG_PREFIX}{USER}", "attributed_user", "User"),
                     (f"{TAG_PREFIX}{PROJECT}", "project", "Project"))  # fmt: skip


class Choice(NamedTuple):
    """A link that adds a filter. ``number`` is how many of the newest sessions match it, None if unknown."""

    words: str
    address: str
    number: int | None


class Menu(NamedTuple):
    """The choices of a filter, with its title. Without a title the choices are filters that are on or off."""

    title: str
    choices: Sequence[Choice]


@dataclass(frozen=True, kw_only=True)
class ListView:
    """The page of the list. ``names`` maps fingerprints of credentials to names, ``labels`` ids of
    sessions to labels. Calls with a row id above ``last_id`` may be missing in the list."""

    listed: Listed
    filters: CallFilters
    menus: Sequence[Menu]
    names: Mapping[str, str]
    labels: Mapping[str, Sequence[str]]
    is_first: bool
    by_cost: bool
    last_id: int

    @property
    def most_cents(self) -> float:
        """Return the cost of the most expensive listed session in cents."""
        return max((each.cost_cents for each in self.listed.sessions), default=0.0)

    @property
    def sql(self) -> str:
        """Return the SQL query of the list, for people to read and edit."""
        where = self.filters.condition_of_sessions().where
        order = "cost_cents" if self.by_cost else "ended_at"
        return f"select * from sessions{where} order by {order} desc limit 50"  # noqa: S608 - for people to read

    @property
    def sql_address(self) -> str:
        """Return the address of the page on which the query can be edited."""
        return query_address(self.sql)

    @property
    def newest_address(self) -> str:
        """Return the address of the list with the newest sessions first."""
        return self.filters.address(PATH)

    @property
    def by_cost_address(self) -> str:
        """Return the address of the list with the most expensive sessions first."""
        return self.filters.address(PATH, order="cost")

    @property
    def older_address(self) -> str:
        """Return the address of the next page of the list."""
        return self.filters.address(PATH, cursor=self.listed.next_cursor or "")

    def remove_address(self, chip: Chip) -> str:
        """Return the address of the list without the filter of ``chip``."""
        return self.filters.without(chip.name).address(PATH)

    def name_credential(self, session: Session) -> str:
        """Return the name of a session's credential."""
        return name_credential(session.credential_hmac, self.names)

    def label_address(self, label: str) -> str:
        """Return the address of the list of sessions with a label."""
        return self.filters.only("label", label).address(PATH)

    def word(self, chip: Chip) -> str:
        """Return the value of a chosen filter, with a credential by its name."""
        return name_credential(chip.words, self.names) if chip.name == "credential" else chip.words


def make_menus(
    reader: SessionReader | None, filters: CallFilters, names: Mapping[str, str]
) -> list[Menu]:
    """Return the menus of filters for the list. ``names`` maps fingerprints to names. Raises
    sqlite3.Error."""
    flags = [
        Choice(words, filters.only(name).address(PATH), None)
        for name, words in _FLAGS
        if name not in filters.values
    ]
    menus = [Menu("", flags)]
    for name, column, title in _COLUMNS:
        counts = [] if reader is None else reader.count_values(column, MOST_VALUES)
        menus.append(_make_menu(title, name, counts, filters, names))
    for name, column, title in _COLUMNS_OF_CALLS:
        values = [] if reader is None else reader.list_values(column, MOST_VALUES)
        menus.append(_make_menu(title, name, [(each, None) for each in values], filters, names))
    labels = [] if reader is None else reader.list_all_labels(MOST_VALUES)
    menus.append(_make_menu("Label", "label", [(each, None) for each in labels], filters, names))
    return [each for each in menus if each.choices]


def _make_menu(
    title: str,
    name: str,
    values: Sequence[tuple[str, int | None]],
    filters: CallFilters,
    names: Mapping[str, str],
) -> Menu:
    """Return the menu of a filter's values, without the chosen one."""
    choices = [
        Choice(_word(name, value, names), filters.only(name, value).address(PATH), count)
        for value, count in values
        if (value,) != filters.values.get(name)
    ]
    return Menu(title, choices)


def _word(name: str, value: str, names: Mapping[str, str]) -> str:
    return name_credential(value, names) if name == "credential" else value
