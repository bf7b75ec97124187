import base64
import json
import re
import time
from dataclasses import replace
from types import ModuleType

import pytest

from dashboard.budgets.webhook_messages import make_message, sign
from store.control.budget_alerts import Alert
from store.control.budgets import format_secret
from tests import ROOT

SECRET = b"s" * 32
ALERT = Alert(
    id="a",
    organization_id="org",
    proxy_endpoint_id="endpoint",
    slug="ci",
    period="day",
    starts_at="2026-01-02T00:00:00Z",
    resets_at="2026-01-03T00:00:00Z",
    limit_usd=50.0,
    spent_usd=50.31,
    percent=100,
    action="refuse",
    created_at="2026-01-02T03:04:05.678Z",
)


@pytest.fixture(scope="module")
def documented():
    """The receiver that docs/budgets.md shows."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "budgets.md").read_text(), re.DOTALL
    )
    receiver = ModuleType("receiver")
    exec(code, receiver.__dict__)  # noqa: S102 - ours
    return receiver


def verify(documented, message, **changes):
    given = {
        "secret": format_secret(SECRET),
        "headers": dict(message.headers),
        "body": message.body,
    }
    return documented.verify(**(given | changes))


def test_the_documented_receiver_accepts_a_message_and_nothing_else(documented):
    message = make_message("1", ALERT, SECRET, int(time.time()))
    assert verify(documented, message)
    assert not verify(documented, message, body=message.body.replace(b"50.31", b"0.31"))
    assert not verify(documented, message, secret=format_secret(b"t" * 32))
    other_id = {**message.headers, "webhook-id": "msg_2"}
    assert not verify(documented, message, headers=other_id)
    later = {**message.headers, "webhook-timestamp": str(int(time.time()) + 1)}
    assert not verify(documented, message, headers=later)
    old = make_message("1", ALERT, SECRET, int(time.time()) - 301)
    assert not verify(documented, old)


def test_a_signature_is_the_one_of_standard_webhooks():
    """The example of the libraries of the specification."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message_id, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(secret, message_id, 1614265330, body) == expected


def test_a_message_says_all_about_the_budget():
    message = make_message("1", ALERT, SECRET, 1_767_323_045)
    document = json.loads(message.body)
    assert (document["type"], document["timestamp"]) == ("budget.reached", ALERT.created_at)
    assert document["data"] == {
        name: getattr(ALERT, name)
        for name in (
            "organization_id",
            "proxy_endpoint_id",
            "slug",
            "percent",
            "limit_usd",
            "spent_usd",
            "period",
            "action",
            "starts_at",
            "resets_at",
        )
    } | {"of": None}
    assert message.headers["webhook-id"] == "msg_1"


def test_a_message_says_whose_budget_it_is():
    alert = replace(ALERT, of_kind="project", of_value="shop", percent=92.5)
    data = json.loads(make_message("1", alert, SECRET, 1_767_323_045).body)["data"]
    assert (data["of"], data["percent"]) == ({"project": "shop"}, 92.5)
