"""Webhook messages, signed as Standard Webhooks (standardwebhooks.com) specifies.

``webhook-id`` stays the same if a message is sent again, so that a receiver can recognise repetitions.
The signature is an HMAC-SHA256 of id, timestamp and body. A receiver refuses messages older than five
minutes, so that nobody can replay a message that they have seen.
"""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """The additional headers (id, timestamp, signature) and the body of a message."""

    headers: Mapping[str, str]
    body: bytes


def make_message(message_id: str, body: bytes, secret: bytes | None, now_s: int) -> WebhookMessage:
    """Return a message with its headers, signed if there is a ``secret``. ``now_s`` is in seconds since
    1970."""
    headers = {ID: message_id, TIMESTAMP: str(now_s)}
    if secret is not None:
        headers[SIGNATURE] = sign(secret, message_id, now_s, body)
    return WebhookMessage(headers, body)


def sign(secret: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of the ``webhook-signature`` header of a message."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"
