"""Tickets that let a page of the dashboard send one call through a proxy endpoint.

The proxy refuses web pages. The page that sends a call again gets a ticket from the web process, which
has checked the visitor and the owner of the endpoint; the proxy checks the ticket. Both have a secret
that the supervisor made at its start. A ticket is valid for one endpoint and one run id, for a minute."""

import hmac

HEADER = "x-taximeter-replay"
LIFETIME_S = 60


def make_ticket(secret: str, slug: str, run_id: str, now_s: float) -> str:
    """Return a ticket for an endpoint and a run, valid from ``now_s`` (seconds since 1970) on."""
    expires_s = int(now_s) + LIFETIME_S
    return f"{expires_s}.{_sign(secret, slug, run_id, expires_s)}"


def is_valid(ticket: str, secret: str, slug: str, run_id: str, now_s: float) -> bool:
    """Return whether a ticket is for this endpoint and run, and has not expired.

    With an empty ``secret`` no ticket is valid."""
    expires, _, signature = ticket.partition(".")
    if not secret or not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
        return False
    expires_s = int(expires)
    signed = _sign(secret, slug, run_id, expires_s)
    is_signed = hmac.compare_digest(signature.encode(), signed.encode())
    return is_signed and now_s <= expires_s <= now_s + LIFETIME_S


def _sign(secret: str, slug: str, run_id: str, expires_s: int) -> str:
    message = f"replay\0{slug}\0{run_id}\0{expires_s}"
    return hmac.new(secret.encode(), message.encode(), "sha256").hexdigest()
