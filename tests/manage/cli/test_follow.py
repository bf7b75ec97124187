import pytest

from manage.cli.follow import Follower
from store.traces.calls.reader import EntryFilter
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


@pytest.fixture
def follow(tmp_path):
    followers = []

    def follow(**wanted):
        followers.append(Follower(tmp_path, EntryFilter(**wanted)))
        return followers[-1]

    yield follow
    for follower in followers:
        follower.__exit__()


@pytest.fixture
def make_traces(tmp_path):
    opened = []

    def make(organization_id="org"):
        opened.append(TraceDatabase(trace_path(tmp_path, organization_id)))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def ids(entries):
    return [entry.row["entry_id"] for entry in entries]


def entry(entry_id, **changes):
    return make_entry(entry_id=entry_id, **changes)


def test_the_last_come_first_and_then_only_what_is_new(follow, make_traces):
    traces = make_traces()
    traces.insert([entry("1"), entry("2"), entry("3")])
    follower = follow()
    assert ids(follower.read_last(2)) == ["2", "3"]
    assert ids(follower.read_new()) == []
    traces.insert([entry("4"), entry("5")])
    assert ids(follower.read_new()) == ["4", "5"]
    assert ids(follower.read_new()) == []


def test_a_long_stream_that_ends_late_is_not_missed(follow, make_traces):
    traces = make_traces()
    traces.insert([entry("short", created_at="2026-01-01T12:00:00.000Z")])
    follower = follow()
    follower.read_last(10)
    traces.insert([entry("long", created_at="2026-01-01T11:00:00.000Z")])
    assert ids(follower.read_new()) == ["long"]


def test_without_lines_only_what_comes_is_given(follow, make_traces):
    traces = make_traces()
    traces.insert([entry("1")])
    follower = follow()
    assert follower.read_last(0) == []
    traces.insert([entry("2")])
    assert ids(follower.read_new()) == ["2"]


def test_only_the_slug_that_is_wanted(follow, make_traces):
    traces = make_traces()
    traces.insert([entry("1", slug="a"), entry("2", slug="b"), entry("3", slug="b")])
    follower = follow(slugs=("a",))
    assert ids(follower.read_last(1)) == ["1"]
    traces.insert([entry("4", slug="b"), entry("5", slug="a")])
    assert ids(follower.read_new()) == ["5"]


def test_more_than_a_page_comes_whole(follow, make_traces):
    traces = make_traces()
    follower = follow()
    traces.insert([entry(str(number)) for number in range(501)])
    assert ids(follower.read_new()) == [str(number) for number in range(501)]


def test_an_organisation_that_records_for_the_first_time_is_seen(follow, make_traces, tmp_path):
    follower = follow()
    assert follower.read_last(10) == []
    path = trace_path(tmp_path, "new")
    path.parent.mkdir(parents=True)
    path.touch()  # the recorder makes the file a moment before the tables
    assert ids(follower.read_new()) == []
    make_traces("new").insert([entry("1")])
    assert [(e.organization_id, e.row["entry_id"]) for e in follower.read_new()] == [("new", "1")]


def test_the_last_of_several_organisations_are_merged_by_arrival(follow, make_traces):
    make_traces("a").insert(
        [entry(f"a{n}", created_at=f"2026-01-01T00:00:0{n}.000Z") for n in (1, 3)]
    )
    make_traces("b").insert(
        [entry(f"b{n}", created_at=f"2026-01-01T00:00:0{n}.000Z") for n in (2, 4)]
    )
    assert ids(follow().read_last(3)) == ["b2", "a3", "b4"]
