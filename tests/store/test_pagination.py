import base64
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial

import pytest
from hypothesis import given, strategies as st

from runtime import clock
from runtime.errors import InvalidCursorError, InvalidInputError
from store.control import endpoints, people, schema
from store.control.endpoints import ProxyEndpoint
from store.pagination import MAX_LIMIT, Page, Position, format_cursor, parse_cursor, read_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    id: str
    created_at: str


def make_thing() -> Thing:
    return Thing(id=clock.new_id(), created_at=clock.format_ms(clock.now()))


@cache
def make_template() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrations.apply(db)
    return db


@contextmanager
def organization() -> Iterator[tuple[sqlite3.Connection, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        make_template().backup(db)
        yield db, people.create_organization(db, "Test").id


def read(
    db: sqlite3.Connection, organization_id: str, cursor: str | None, limit: int
) -> Page[ProxyEndpoint]:
    return read_page(
        "endpoints",
        cursor,
        limit,
        partial(endpoints.list_after, db, organization_id),
        finds_previous=True,
    )


def test_a_cursor_is_read_back():
    thing = make_thing()
    assert parse_cursor("things", format_cursor("things", thing)) == Position(
        thing.created_at, thing.id
    )


def test_a_cursor_belongs_to_one_kind_of_list():
    with pytest.raises(InvalidCursorError):
        parse_cursor("others", format_cursor("things", make_thing()))


def test_a_cursor_has_one_spelling():
    cursor = format_cursor("things", make_thing())
    for other in (
        f"{cursor}=",
        f"{cursor} ",
        f" {cursor}",
        f"{cursor}\n",
        cursor[:-1],
        f"{cursor}A",
    ):
        with pytest.raises(InvalidCursorError):
            parse_cursor("things", other)


@given(
    st.text(max_size=200) | st.binary(max_size=100).map(base64.urlsafe_b64encode).map(bytes.decode)
)
def test_whatever_else_is_given_is_no_cursor(text):
    with pytest.raises(InvalidCursorError):
        parse_cursor("things", text)


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
def test_a_limit_out_of_bounds_is_refused(limit):
    with pytest.raises(InvalidInputError, match="between 1 and 100"):
        read_page("things", None, limit, lambda position, count: [])


@pytest.mark.parametrize(("count", "limit", "sizes"), [(0, 5, [0]), (5, 5, [5]), (6, 5, [5, 1])])
def test_the_last_page_says_that_it_is(count, limit, sizes):
    with organization() as (db, organization_id):
        for _ in range(count):
            endpoints.create(db, organization_id, "x")
        pages = [read(db, organization_id, None, limit)]
        while pages[-1].has_more:
            pages.append(read(db, organization_id, pages[-1].next_cursor, limit))
    assert [len(page.items) for page in pages] == sizes
    assert pages[-1].next_cursor is None


@pytest.mark.parametrize("count", [1, 5, 6, 11, 15])
def test_the_pages_before_one_are_those_that_led_to_it(count):
    with organization() as (db, organization_id):
        for _ in range(count):
            endpoints.create(db, organization_id, "x")
        pages = [read(db, organization_id, None, 5)]
        while pages[-1].has_more:
            pages.append(read(db, organization_id, pages[-1].next_cursor, 5))
        back = [pages[-1]]
        while not back[-1].is_first:
            back.append(read(db, organization_id, back[-1].previous_cursor, 5))
    assert [page.items for page in back[::-1]] == [page.items for page in pages]


@given(
    there=st.integers(0, 12),
    limit=st.integers(1, 5),
    changes=st.lists(st.lists(st.integers(-12, 3), max_size=4), max_size=12),
)
def test_what_is_there_throughout_is_seen_once_whatever_comes_and_goes(there, limit, changes):
    """Between two pages each number makes so many endpoints, or deletes the so-manieth."""
    with organization() as (db, organization_id):
        for _ in range(there):
            endpoints.create(db, organization_id, "x")
        before = {e.id for e in endpoints.list_after(db, organization_id)}
        page = read(db, organization_id, None, limit)
        seen = [each.id for each in page.items]
        for change in changes:
            _apply(db, organization_id, change)
            if page.has_more:
                page = read(db, organization_id, page.next_cursor, limit)
                seen += [each.id for each in page.items]
        while page.has_more:
            page = read(db, organization_id, page.next_cursor, limit)
            seen += [each.id for each in page.items]
        throughout = before & {e.id for e in endpoints.list_after(db, organization_id)}
    assert len(seen) == len(set(seen))
    assert throughout <= set(seen) <= before


def _apply(db: sqlite3.Connection, organization_id: str, change: Sequence[int]) -> None:
    for number in change:
        if number > 0:
            for _ in range(number):
                endpoints.create(db, organization_id, "new")
        elif found := endpoints.list_after(db, organization_id):
            endpoints.delete(db, organization_id, found[number % len(found)].id)
