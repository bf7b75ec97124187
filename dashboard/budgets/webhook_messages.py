"""The messages of webhooks, signed as Standard Webhooks (standardwebhooks.com) says.

``webhook-id`` stays the same when a message is sent again, so that a receiver can tell. The signature is
HMAC-SHA256 of id, timestamp and body; a receiver refuses what is older than five minutes, so that nobody can
send again what they have seen.
"""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """The headers and the body of a message."""

    headers: Mapping[str, str]
    body: bytes


def make_message(message_id: str, body: bytes, secret: bytes | None, now_s: int) -> WebhookMessage:
    """Return a message, signed at an instant in seconds since 1970 where there is a secret."""
    headers = {ID: message_id, TIMESTAMP: str(now_s)}
    if secret is not None:
        headers[SIGNATURE] = sign(secret, message_id, now_s, body)
    return WebhookMessage(headers, body)


def sign(secret: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the signature of a message."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"
