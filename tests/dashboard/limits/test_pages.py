"""``/limits.json``: how much is left of the windows of subscriptions."""

from datetime import timedelta

from metering.rate_limits import RateLimits
from runtime import clock


def record(person, minutes_ago, used, resets_in, now=None):
    now = now or clock.now()
    limits = RateLimits(
        unified_5h_utilization=used,
        unified_5h_reset_at=clock.format_seconds(now + resets_in),
        unified_5h_status="allowed",
        account="account",
    )
    at = clock.format_ms(now - timedelta(minutes=minutes_ago))
    person.record(created_at=at, rate_limits=limits)
    return at


def test_windows_have_what_is_left_and_when_they_are_used_up(ann):
    now = clock.now().replace(microsecond=500_000)  # the same second, however it is rounded
    record(ann, 31, 0.2, timedelta(hours=3), now)
    at = record(ann, 1, 0.5, timedelta(hours=3), now)
    found = ann.get("/limits.json").json()
    (item,) = found["items"]
    assert item == {
        "account": "account",
        "window": "5h",
        "used": 0.5,
        "left": 0.5,
        "resets_at": item["resets_at"],
        "read_at": at,
        "used_up_at": clock.format_seconds(clock.parse_instant(at) + timedelta(minutes=50)),
        "status": "allowed",
    }
    assert (found["nextCursor"], found["hasMore"]) == (None, False)


def test_nothing_is_known_since_a_reset(ann):
    record(ann, 200, 0.5, timedelta(hours=-1))
    (item,) = ann.get("/limits.json").json()["items"]
    assert (item["used"], item["left"], item["used_up_at"]) == (0.5, None, None)


def test_without_a_subscription_there_are_no_windows(ann):
    assert ann.get("/limits.json").json()["items"] == []
    ann.record()
    assert ann.get("/limits.json").json()["items"] == []


def test_a_key_reads_the_windows_of_its_organisation_and_nobody_those_of_others(ann, cid, stranger):
    record(ann, 1, 0.5, timedelta(hours=3))
    assert len(stranger.get("/limits.json", headers=ann.bearer).json()["items"]) == 1
    assert cid.get("/limits.json").json()["items"] == []
    assert stranger.get("/limits.json").status_code == 401
