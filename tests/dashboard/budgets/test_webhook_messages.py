import base64
import re
import time
from types import ModuleType

import pytest

from dashboard.budgets.webhook_messages import make_message, sign
from store.control.budgets import format_secret
from tests import ROOT

SECRET = b"s" * 32
BODY = b'{"data": {"spent_usd": 50.31}}'


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
    message = make_message("msg_1", BODY, SECRET, int(time.time()))
    assert verify(documented, message)
    assert not verify(documented, message, body=message.body.replace(b"50.31", b"0.31"))
    assert not verify(documented, message, secret=format_secret(b"t" * 32))
    other_id = {**message.headers, "webhook-id": "msg_2"}
    assert not verify(documented, message, headers=other_id)
    later = {**message.headers, "webhook-timestamp": str(int(time.time()) + 1)}
    assert not verify(documented, message, headers=later)
    old = make_message("msg_1", BODY, SECRET, int(time.time()) - 301)
    assert not verify(documented, old)


def test_a_signature_is_the_one_of_standard_webhooks():
    """The example of the libraries of the specification."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message_id, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(secret, message_id, 1614265330, body) == expected
