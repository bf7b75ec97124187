"""Checks of a request before it is sent: mistakes in it, and changes from the recorded one."""

from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.compare.alignment import Effort
from dashboard.compare.differences import compare_lists
from dashboard.compare.parts import take_apart
from metering.formats import format_count, format_number
from wire.request import Request

_KINDS = ("changed", "added", "removed", "moved")
_LEVELS = (("tools", "tool"), ("system", "system block"), ("messages", "message"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of checking a request. ``problems`` are sentences about what upstream will refuse;
    ``changes`` are the differences from the recorded request."""

    problems: tuple[str, ...]
    changes: tuple[str, ...] = ()


def check_request(body: bytes, recorded: bytes | None) -> Check:
    """Return the problems of a request, and its changes from the recorded one, if there is a recorded one."""
    request = Request.parse(body)
    if request is None:
        return Check(problems=("The request is not a JSON object.",))
    before = None if recorded is None else Request.parse(recorded)
    changes = () if before is None else tuple(_list_changes(before, request))
    return Check(problems=tuple(_list_problems(request)), changes=changes)


def _list_problems(request: Request) -> Iterator[str]:
    settings = request.settings
    model = settings.get("model")
    if not isinstance(model, str) or not model:
        yield "“model” must be the name of a model."
    limit = settings.get("max_tokens")
    if type(limit) is not int or limit < 0:
        yield "“max_tokens” must be a whole number."
    if not request.messages:
        yield "“messages” must be a list with at least one message."
        return
    for number, message in enumerate(request.messages, 1):
        if not message.is_complete:
            yield f"Message {format_count(number)} must be an object with “role” and “content”."
            return
    if not isinstance(settings.get("stream", False), bool):
        yield "“stream” must be true or false."


def _list_changes(before: Request, after: Request) -> Iterator[str]:
    old, new = take_apart(before), take_apart(after)
    for name in dict.fromkeys([*old.settings, *new.settings]):
        if old.settings.get(name) != new.settings.get(name):
            yield f"{name} {_name_change(name in old.settings, name in new.settings)}"
    effort = Effort()
    for level, noun in _LEVELS:
        found = compare_lists(
            getattr(old, level), getattr(new, level), (noun, noun), effort, by_name=level == "tools"
        )
        for kind in _KINDS:
            count = sum(each.kind == kind for each in found)
            if count:
                yield f"{format_number(count, noun)} {kind}"
    if old.markers != new.markers:
        yield "cache breakpoints changed"


def _name_change(was_there: bool, is_there: bool) -> str:
    if was_there and is_there:
        return "changed"
    return "added" if is_there else "removed"
