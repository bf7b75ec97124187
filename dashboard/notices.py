"""What a page says after a form was carried out.

The form's answer sends the browser to ``…?done=<code>``. Only codes of this list are ever shown, so an
address that somebody made up says nothing of theirs.
"""

from dataclasses import dataclass

from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Notice:
    """``is_warning``: something is left for the reader to do."""

    text: str
    is_warning: bool = False


_NOTICES = {
    "endpoint-created": Notice("The endpoint is there and works already."),
    "endpoint-changed": Notice("The endpoint was changed. New calls follow it at once."),
    "endpoint-deleted": Notice("The endpoint was deleted and takes no more calls."),
    "key-deleted": Notice("The key was deleted and is refused from now on."),
    "invitation-sent": Notice("The invitation is on its way by mail."),
    "invitation-printed": Notice("The link was printed where Taximeter runs."),
    "invitation-waits": Notice("The invitation waits until they sign in with that address."),
    "invitation-not-sent": Notice(
        "The invitation was made, but its mail could not be sent. Try “Send again” in a while.",
        True,
    ),
    "invitation-taken-back": Notice("The invitation was taken back. Its link is void."),
    "invitation-declined": Notice("The invitation was declined."),
    "joined": Notice("You are a member now, and see the calls of this organisation."),
    "member-removed": Notice("The member was removed. Their sessions and keys have ended."),
    "organization-switched": Notice("You are in another of your organisations now."),
}


def find(request: Request) -> Notice | None:
    """What the address of this request says was done, if anything."""
    return _NOTICES.get(request.query_params.get("done", ""))


def address(path: str, code: str, section: str = "") -> str:
    """Where to go after a form."""
    assert code in _NOTICES, code  # noqa: S101 - a slip of ours, found by the tests
    return f"{path}?done={code}" + (f"#{section}" if section else "")
