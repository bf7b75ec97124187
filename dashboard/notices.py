"""Notices that a page shows after a form was submitted.

The response to a form redirects the browser to ``…?done=<code>``. Only the codes in this module have a
notice, so a forged address cannot display text.
"""

from dataclasses import dataclass

from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence that a page shows after a form was submitted. ``is_warning``: the reader has to do
    something."""

    text: str
    is_warning: bool = False


_NOTICES = {
    "endpoint-created": Notice("The endpoint was created and is ready to use."),
    "endpoint-changed": Notice("The endpoint was changed. New calls use the new settings."),
    "endpoint-deleted": Notice("The endpoint was deleted. Calls to it are refused."),
    "retention-set": Notice(
        "The rule was set. The next run applies it; until then you can change it."
    ),
    "budget-set": Notice("The budget was set. It takes effect within a second or two."),
    "budget-deleted": Notice(
        "The budget was deleted. Nothing is refused or reported because of it any more."
    ),
    "alert-added": Notice("The alert was added. “Send a test” tries where it goes."),
    "alert-deleted": Notice("The alert was deleted."),
    "test-delivered": Notice("The test was delivered."),
    "test-failed": Notice("The test was not delivered: “Latest alerts” below says why.", True),
    "test-waits": Notice("The test waits to be sent. Reload this page for its result.", True),
    "time-zone-set": Notice(
        "The time zone was set. Budgets have its days, weeks and months, and pages show times in it."
    ),
    "webhook-deleted": Notice("The webhook was deleted. Budgets are reported by mail alone."),
    "key-deleted": Notice("The key was deleted. Requests with it are refused."),
    "invitation-sent": Notice("The invitation was sent by mail."),
    "invitation-printed": Notice("The link was printed in the terminal where Taximeter runs."),
    "invitation-waits": Notice(
        "The invitation was created. It shows when they sign in with this address."
    ),
    "invitation-not-sent": Notice(
        "The invitation was created, but its mail could not be sent. Try “Send again” later.",
        True,
    ),
    "invitation-taken-back": Notice("The invitation was withdrawn. Its link no longer works."),
    "invitation-declined": Notice("The invitation was declined."),
    "joined": Notice("You joined the organisation and see its calls."),
    "member-removed": Notice("The member was removed. Their sessions and keys were revoked."),
    "organization-switched": Notice("You switched to another organisation."),
}


def find(request: Request) -> Notice | None:
    """Return the notice whose code is in the address of a request, or None."""
    return _NOTICES.get(request.query_params.get("done", ""))


def address(path: str, code: str) -> str:
    """Return the address of a page that shows the notice with this code."""
    assert code in _NOTICES, code  # noqa: S101 - a slip of ours, found by the tests
    return f"{path}?done={code}"
