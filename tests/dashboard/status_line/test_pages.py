"""``POST /statusline``: what it says, to whom, and what hostile bodies get."""

import json
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from starlette.testclient import TestClient

from manage.server import make_app
from metering.attribution import Part
from metering.rate_limits import RateLimits
from runtime import clock
from runtime.settings import CLIENT_MARK_VARIABLE, Settings
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.conversations.sessions import conversation, request
from tests.recorder.conversations import Recording
from tests.store.traffic import make_entry
from tests.upstream import wait_until

MARK = "a-mark-of-the-front-door"
BODY = {"session_id": "s1", "cwd": "/home/ana/secret-project", "cost": {"total_cost_usd": 9.87}}
FROM_HERE = {"x-taximeter-client": f"{MARK} 127.0.0.1"}


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path / "data")})


@pytest.fixture
def management(settings, control):
    return Management.make(control, settings)


class Local:
    """The local organisation, whose calls are recorded here."""

    def __init__(self, settings, control):
        self.id = control.get_local_organization().id
        self.path = trace_path(settings.data_dir, self.id)

    def record(self, **changes):
        with TraceDatabase(self.path) as traces:
            traces.insert([make_entry(session_id="s1", **changes)])


@pytest.fixture
def local(settings, control):
    return Local(settings, control)


@pytest.fixture
def client(settings, control, monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, MARK)
    with TestClient(make_app(settings), base_url="http://127.0.0.1:8080") as client:
        client.headers.update(FROM_HERE)
        yield client


def ask(client, body=None, query="", **headers):
    content = json.dumps(BODY if body is None else body)
    return client.post(f"/statusline{query}", content=content, headers=headers)


def line(client, body=None, query=""):
    response = ask(client, body, query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain")
    assert response.text.count("\n") <= 1
    return response.text.rstrip("\n")


def test_it_says_what_the_session_cost_with_subagents_and_what_is_left(client, local, management):
    now = clock.now()
    limits = RateLimits(
        unified_5h_utilization=0.42,
        unified_5h_reset_at=clock.format_seconds(now + timedelta(hours=2, minutes=10, seconds=20)),
        unified_7d_utilization=0.13,
        unified_7d_reset_at=clock.format_seconds(now + timedelta(days=3, minutes=1)),
        account="account",
    )
    at = clock.format_ms(now)
    local.record(created_at=at, cost_cents=Decimal(100), rate_limits=limits)
    local.record(created_at=at, cost_cents=Decimal(24), agent_id="agent-1", slug="default")
    management.budgets.put(
        management.local_caller(), None, period="day", limit_usd=10, action="warn"
    )
    said = line(client)
    assert re.match(r"\$1\.24 · cache (5:00|4:\d\d) · ", said)
    assert "5h 42% (resets in 2 h 10 min) · 7d 13% (resets in 3 days)" in said
    assert said.endswith(" · budget $8.76 left today")
    assert line(client, query="?parts=budget,cost") == "$1.24 · budget $8.76 left today"


def test_it_is_held_in_memory_and_follows_new_calls(client, local):
    local.record(cost_cents=Decimal(100), created_at=clock.format_ms(clock.now()))
    assert line(client, query="?parts=cost") == "$1.00"
    local.record(cost_cents=Decimal(23), created_at=clock.format_ms(clock.now()))
    wait_until(lambda: line(client, query="?parts=cost") == "$1.23", "the new call is said")
    away = local.path.rename(local.path.with_suffix(".away"))
    assert line(client, query="?parts=cost") == "$1.23", "no file is read for a response"
    away.rename(local.path)


def test_a_cold_cache_and_the_last_break_have_a_price(client, local, settings):
    recording = Recording(settings.data_dir, local.id)
    log = "It sails. " * 1_000
    for turns, nation in ((1, "British"), (2, "British"), (3, "American")):
        recording.send(request(*conversation(turns, opening=f"A {nation} ship. {log}")))
    recording.close()
    assert line(client, query="?parts=cache") == "cache cold · last break $0.01"


def test_a_session_without_calls_has_only_what_holds_for_all(client, local, management):
    assert line(client) == ""
    caller = management.local_caller()
    management.budgets.put(caller, None, period="week", limit_usd=10, action="warn")
    others = Part("user", "ana")  # whose budget need not be about this session
    management.budgets.put(caller, None, period="day", limit_usd=1, action="warn", of=others)
    local.record(cost_cents=Decimal(100), created_at=clock.format_ms(clock.now()))
    assert line(client, {"session_id": "s2"}) == "budget $9.00 left this week"


HOSTILE = {
    "no JSON": b"\x00\xff{",
    "nothing": b"",
    "a list": b"[1]",
    "deep": b'{"session_id":' * 3_000,
    "deep and closed": b"[" * 20_000 + b"]" * 20_000,
    "escapes": json.dumps({"session_id": "\x1b]0;owned\x07\x1b[2J"}).encode(),
    "lines": json.dumps({"session_id": "s1\ns2"}).encode(),
    "surrogates": b'{"session_id": "\\ud800"}',
    "long": json.dumps({"session_id": "s" * 60_000}).encode(),
    "number": b'{"session_id": 1e999}',
    "others": json.dumps({"session_id": {"a": ["s1"]}, "model": "\x1b[31m"}).encode(),
}


def test_a_hostile_body_gets_a_short_plain_line_or_nothing(client, local, subtests):
    local.record(cost_cents=Decimal(100))
    for name, body in HOSTILE.items():
        with subtests.test(name):
            response = client.post("/statusline", content=body)
            assert response.status_code == 200
            assert response.text == ""


def test_what_is_too_large_is_refused(client):
    assert client.post("/statusline", content=b" " * (64 << 10)).status_code == 200
    assert client.post("/statusline", content=b" " * ((64 << 10) + 1)).status_code == 413
    assert ask(client, query="?parts=price").status_code == 400
    assert client.get("/statusline").status_code in (404, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-taximeter-client": f"{MARK} 203.0.113.9"},
        {"x-forwarded-for": "127.0.0.1"},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:8080"},
    ],
)
def test_only_programs_on_this_machine_get_it(client, local, headers):
    local.record(cost_cents=Decimal(100))
    response = ask(client, **headers)
    assert response.status_code == 403
    assert "$" not in response.text


def test_nothing_of_the_body_is_stored(client, local, settings, control):
    local.record(cost_cents=Decimal(100))
    line(client)
    stored = b"".join(each.read_bytes() for each in settings.data_dir.rglob("*") if each.is_file())
    assert b"secret-project" not in stored


def test_crowds_of_sessions_are_forgotten_in_turn(client, local):
    local.record(cost_cents=Decimal(100))
    for number in range(80):
        assert line(client, {"session_id": f"other-{number}"}) == ""
    assert line(client, query="?parts=cost") == "$1.00"
