"""Migration of databases of the last commit before the first release; older ones are refused.

The migrations of that commit made the schema of 0.1.0 and a table ``backfills`` with the work still
to do on calls of earlier versions. If nothing is left to do, the list of applied migrations is
replaced by the name of today's first one. No row of data is changed. Remove this module when nobody
has such a database any more."""

import sqlite3
from collections.abc import Collection
from typing import Literal

COMMIT = "2f0c828"
ADVICE = (
    f"start the program of commit {COMMIT} with this data directory, let it run until its"
    " `taximeter doctor` says nothing of earlier calls, and then start this one"
)
_CONTROL = (
    "m001_organizations_and_endpoints",
    "m002_sign_in",
    "m003_keys_and_audit_log",
    "m004_sign_in_by_address_and_invitations",
    "m005_index_of_all_endpoints",
    "m006_budgets",
    "m007_retention_and_erasures",
    "m008_erasures_of_copies",
)
_TRACES = (
    "m001_usage_bodies_and_rollups",
    "m002_find_the_calls_of_a_session",
    "m003_how_the_request_was_sent_and_what_is_kept",
    "m004_order_the_calls_of_an_agent_by_arrival",
    "m005_group_the_calls_of_a_run",
    "m006_who_pays_and_what_the_request_was_for",
    "m007_say_why_a_line_of_a_cost_is_not_billed",
    "m008_mark_what_is_estimated",
    "m009_book_each_pass_to_the_model_that_ran_it",
    "m010_estimate_the_streams_that_were_cut_before",
    "m011_sum_up_sessions",
    "m012_sum_up_days",
    "m013_keep_predecessors_and_cache_breaks",
    "m014_name_the_tools_that_failed",
    "m015_index_what_was_said",
    "m016_keep_what_sessions_could_have_saved",
    "m017_sum_up_savings_by_day",
    "m018_show_sums_of_days",
    "m019_note_what_retention_and_erasing_have_done",
    "m020_count_calls_since_the_beginning",
)

type Origin = Literal["a release", "the last commit", "an earlier one"]


class EarlierVersionError(sqlite3.DatabaseError):
    """A database of a version that is too old to be migrated. The database was not changed."""


def find_origin(applied: Collection[str]) -> Origin:
    """Return which kind of version made a database, by the names of its ``applied`` migrations."""
    names = set(applied)
    for earlier in (_CONTROL, _TRACES):
        if not names.isdisjoint(earlier):
            return "the last commit" if names.issuperset(earlier) else "an earlier one"
    return "a release"


def read_origin(connection: sqlite3.Connection) -> Origin:
    """Return which kind of version made a database. Counts as an earlier one while ``backfills`` has rows."""
    if not _has_table(connection, "_sqlite_migrations"):
        return "a release"  # which is about to make it
    applied = connection.execute("select name from _sqlite_migrations").fetchall()
    origin = find_origin([name for (name,) in applied])
    if origin == "the last commit" and _has_table(connection, "backfills"):
        is_left = connection.execute("select 1 from backfills").fetchone() is not None
        return "an earlier one" if is_left else origin
    return origin


def check(connection: sqlite3.Connection) -> bool:
    """Return whether ``take_over`` must be called for a database. Raises EarlierVersionError for older
    ones."""
    origin = read_origin(connection)
    if origin == "an earlier one":
        (_, _, path) = connection.execute("pragma database_list").fetchone()
        raise EarlierVersionError(f"{path} is of an earlier version and was not changed: {ADVICE}")
    return origin == "the last commit"


def take_over(connection: sqlite3.Connection, first: str) -> None:
    """Replace the list of applied migrations by ``first``, the name of today's first one. The caller holds
    the write lock."""
    connection.execute(
        "delete from _sqlite_migrations where id > (select min(id) from _sqlite_migrations)"
    )
    connection.execute("update _sqlite_migrations set name = ?", (first,))
    if _has_table(connection, "backfills"):
        connection.execute("drop view usage_days")
        connection.execute("drop table backfills")
        connection.execute("create view usage_days as select * from usage_daily")


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    sql = "select 1 from sqlite_schema where type = 'table' and name = ?"
    return connection.execute(sql, (name,)).fetchone() is not None
