"""The messages of webhooks, signed as Standard Webhooks (standardwebhooks.com) says.

``webhook-id`` stays the same when a message is sent again, so that a receiver can tell. The signature is
HMAC-SHA256 of id, timestamp and body; a receiver refuses what is older than five minutes, so that nobody can
send again what they have seen.
"""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from store.control.budget_alerts import Alert

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """The headers and the body of a message."""

    headers: Mapping[str, str]
    body: bytes


def make_message(message_id: str, alert: Alert, secret: bytes, now_s: int) -> WebhookMessage:
    """Return the message about an alert, signed at an instant, in seconds since 1970."""
    body = orjson.dumps(
        {
            "type": "budget.reached" if alert.is_reached else "budget.warning",
            "timestamp": alert.created_at,
            "data": {
                "organization_id": alert.organization_id,
                "proxy_endpoint_id": alert.proxy_endpoint_id,
                "slug": alert.slug,
                "percent": alert.percent,
                "limit_usd": alert.limit_usd,
                "spent_usd": alert.spent_usd,
                "period": alert.period,
                "action": alert.action,
                "of": None if alert.of is None else {alert.of.kind: alert.of.value},
                "starts_at": alert.starts_at,
                "resets_at": alert.resets_at,
            },
        }
    )
    signed_id = f"msg_{message_id}"
    headers = {
        ID: signed_id,
        TIMESTAMP: str(now_s),
        SIGNATURE: sign(secret, signed_id, now_s, body),
    }
    return WebhookMessage(headers, body)


def sign(secret: bytes, message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the signature of a message."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"
