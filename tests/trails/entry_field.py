"""A field of an entry: ``team``, which a header of the request names."""

from tests.trails.copies import Copy, Trail

MIGRATION = '''

@migrations()
def m099_team(db: Database) -> None:
    """Keep the team that a call is of."""
    add_to_usage(db, {"team": "text"})
'''
CHECK = """
import sqlite3
from contextlib import closing

from metering.prices import PriceTable
from recorder.record import make_entry
from recorder.requests import RequestReader
from store.traces.database import TraceDatabase
from tests.recorder.test_record import DOCUMENT, exchange

ANSWER = b'{"type": "message", "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}'


def record(ann, **head):
    entry = make_entry(
        exchange(ANSWER, DOCUMENT, head={"team": "blue team", **head}), PriceTable(), RequestReader()
    )
    with TraceDatabase(ann.path) as traces:
        traces.insert([entry])


def test_the_field_is_stored_and_shown(ann):
    record(ann)
    with closing(sqlite3.connect(ann.path)) as db:
        assert db.execute("select team from usage_log").fetchone() == ("blue team",)
    assert "blue team" in ann.get("/calls/1/details").text


def test_an_endpoint_that_keeps_no_text_stores_none_in_its_place(ann):
    record(ann, metadata_only=True)
    with closing(sqlite3.connect(ann.path)) as db:
        assert db.execute("select team from usage_log").fetchone() == (None,)
"""
CHOICES = (
    "wire/request_fields.py",
    "metering/request_facts.py",
    "wire/envelope.py",
    "wire/usage_object.py",
    "metering/usage.py",
    "metering/body_fields.py",
)


def walk(copy: Copy) -> None:
    copy.insert(
        "store/spool/format.py",
        "    team: str | None = None\n",
        before="    betas: str | None = None\n",
    )
    copy.insert(
        "addon/head_metadata.py",
        '    b"x-team": "team",\n',
        before='    b"x-stainless-retry-count"',
    )
    copy.insert(
        "addon/head_metadata.py",
        "        team=keep_plain_name(head.team),\n",
        after="        api_version=keep_plain_name(head.api_version),\n",
    )
    copy.insert(
        "metering/entry.py",
        "    team: str | None = None\n",
        before="    betas: str | None = None\n",
    )
    copy.insert(
        "recorder/header_fields.py",
        '        "team": clean_text(head.team),\n',
        after='        "api_version": clean_text(head.api_version),\n',
    )
    copy.insert("metering/metadata_only.py", '    "team",\n', after='    "api_version",\n')
    copy.append("store/traces/schema.py", MIGRATION)
    copy.insert(
        "dashboard/tables/metadata/tables.toml",
        'team = "Team that the header `x-team` names. NULL when it had none."\n',
        before="betas = ",
    )
    copy.insert(
        "dashboard/call/facts.py",
        '        ("Team", "team"),\n',
        before='        ("API version"',
    )


TRAIL = Trail(
    heading="Add a field of an entry",
    walk=walk,
    choices=CHOICES,
    checks={"tests/dashboard/test_walked_field.py": CHECK},
    tests=(
        "tests/dashboard/tables/test_metadata.py",
        "tests/recorder/test_recorded_fields.py",
        "tests/addon/test_head_metadata.py",
    ),
)
