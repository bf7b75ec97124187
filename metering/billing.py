"""The decision who pays for a call.

It depends on the request, the credential, and the limits that upstream states. A token
(``sk-ant-oat…``) belongs to a subscription, or is a short-lived one of an organisation that pays by
token (workload identity federation). The response tells which, because a subscription has its own
kind of limits. A request may ask that a customer pays, whose organisation is linked to the user
profile that it names. The response does not say who paid: if the customer cannot, the call is
refused, so a successful one was paid by the customer."""

from typing import Literal

from metering.rate_limits import RateLimits

type CredentialKind = Literal["api_key", "token", "other"]
type Billing = Literal["api_key", "subscription", "customer", "imported"]

BILL_TO_CUSTOMER = "user_profile"

_KINDS: tuple[tuple[bytes, CredentialKind], ...] = (
    (b"sk-ant-oat", "token"),
    (b"sk-ant-", "api_key"),
)


def classify_credential(credential: bytes) -> CredentialKind:
    """Return the kind of an upstream credential, by its prefix."""
    for prefix, kind in _KINDS:
        if credential.startswith(prefix):
            return kind
    return "other"


def find_billing(
    kind: str | None,
    limits: RateLimits | None,
    *,
    bill_to: str | None = None,
    status_code: int | None = None,
) -> Billing | None:
    """Return who pays for a call, or None if unknown. ``bill_to`` is the payer that the request asks for."""
    if bill_to == BILL_TO_CUSTOMER and status_code == 200:
        return "customer"
    if kind == "api_key":
        return "api_key"
    if limits is not None and limits.is_unified:
        return "subscription"
    if limits is not None and limits.is_per_minute:
        return "api_key"
    return "subscription" if kind == "token" else None
