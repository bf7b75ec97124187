import pytest

from runtime.replay_tickets import LIFETIME_S, is_valid, make_ticket

NOW_S = 1_800_000_000.5
TICKET = make_ticket("secret", "team-a", "replay-1", NOW_S)


def test_a_ticket_holds_for_a_minute():
    for after_s in (0, 1, LIFETIME_S - 1):
        assert is_valid(TICKET, "secret", "team-a", "replay-1", NOW_S + after_s)
    assert not is_valid(TICKET, "secret", "team-a", "replay-1", NOW_S + LIFETIME_S)
    assert not is_valid(TICKET, "secret", "team-a", "replay-1", NOW_S - 10)


@pytest.mark.parametrize(
    ("secret", "slug", "run_id"),
    [
        ("other", "team-a", "replay-1"),
        ("secret", "team-b", "replay-1"),
        ("secret", "team-a", "replay-2"),
        ("secret", "team-a\0replay", "1"),
    ],
)
def test_a_ticket_is_for_one_endpoint_and_run(secret, slug, run_id):
    assert not is_valid(TICKET, secret, slug, run_id, NOW_S)


@pytest.mark.parametrize(
    "ticket",
    [
        "",
        ".",
        "1.2",
        TICKET[:-1],
        TICKET + "0",
        "1" + TICKET,
        TICKET.replace(".", "0."),
        "\u0661.x",
    ],
)
def test_what_was_not_made_with_the_secret_is_no_ticket(ticket):
    assert not is_valid(ticket, "secret", "team-a", "replay-1", NOW_S)


def test_a_longer_time_cannot_be_claimed():
    expires_s = int(NOW_S) + 10 * LIFETIME_S
    forged = f"{expires_s}.{TICKET.partition('.')[2]}"
    later = make_ticket("secret", "team-a", "replay-1", NOW_S + 10 * LIFETIME_S)
    for ticket in (forged, later):
        assert not is_valid(ticket, "secret", "team-a", "replay-1", NOW_S)


def test_without_a_secret_nothing_is_valid():
    ticket = make_ticket("", "team-a", "replay-1", NOW_S)
    assert not is_valid(ticket, "", "team-a", "replay-1", NOW_S)
