"""Responses in place of the page of a call."""

from starlette.responses import Response

from dashboard import rendering
from dashboard.rendering import PRIVATE
from store.control.people import Caller

UNREADABLE = "This call cannot be read right now. Try again in a moment."


def refuse(caller: Caller, status: int, code: str, message: str, *, by_program: bool) -> Response:
    """Return an error as a page, or in JSON for a program."""
    if by_program:
        return rendering.problem_json(status, code, message, PRIVATE)
    return rendering.render(
        "trace_problem.html", visitor=caller, status=status, headers=PRIVATE, message=message
    )
