"""The pages ``/calls/<id>`` and those below ``/traces/usage/<id>``, made in a query process.

These are the page of one call with its tabs, its bodies and the files in them.
"""

import logging
import sqlite3
from typing import Any, cast

from starlette.responses import RedirectResponse, Response

from dashboard.addresses import row_address
from dashboard.call import facts
from dashboard.call.addresses import Address, find_address
from dashboard.call.bodies import describe_body
from dashboard.call.head import Head, open_head
from dashboard.call.lookup import NO_BODY, NO_CALL, UNREADABLE, describe_missing
from dashboard.call.timing import draw_timing
from dashboard.call.views import find_answer, open_file, open_view
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import FILE_HEADERS, PRIVATE
from dashboard.replay.snippets import MAX_PASTED_BYTES, list_programs, read_parts
from store.control.sessions import Visitor
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls import predecessors
from store.traces.calls.call_reader import Call, CallReader, Side

logger = logging.getLogger(__name__)


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page, part of a body or file that an address names. Never raises sqlite3.Error."""
    try:
        if "call" in page.arguments:
            return _render_tab(page, reader)
        address = cast(Address, find_address(page.arguments["path"]))
        call = reader.find_call(address.usage_id)
        if call is None:
            return page.refuse(404, NO_CALL)
        return _render_body(page, address, call, reader)
    except (sqlite3.Error, MissingPieceError):
        logger.exception("a call cannot be read")
        return page.refuse(503, UNREADABLE)


def _render_tab(page: PageRequest, reader: CallReader) -> Response:
    """Return a tab of a call's page; programs are redirected to the JSON of its row."""
    call = reader.find_call(page.arguments["call"])
    if call is None:
        message = describe_missing(reader, page.arguments["call"])
        return page.refuse(404, message)
    if page.is_for_program:
        return RedirectResponse(f"{row_address(call.id)}.json", 302, PRIVATE)
    tab = page.arguments["tab"]
    head = open_head(call, reader, is_plain=page.is_plain)
    return page.render(
        f"call_{tab}.html",
        call=call,
        tab=tab,
        head=head,
        annotations=reader.read_annotations(call.id),
        with_forms=isinstance(page.caller, Visitor),
        credential=page.arguments["credential"],
        notices=page.arguments["notices"],
        **_OPEN[tab](page, call, head, reader),
    )


def _open_conversation(
    page: PageRequest, call: Call, head: Head, reader: CallReader
) -> dict[str, Any]:
    used_tools = bool(head.uses) or call.entry.stop_reason == "tool_use"
    return {
        "new": head.new,
        "response": head.response,
        "answer": find_answer(call.id, reader, is_plain=page.is_plain) if used_tools else None,
        "is_continued": bool(predecessors.list_next(reader.connection, call.id)),
        "bodies": (describe_body(call, "request"), describe_body(call, "response")),
    }


def _open_cost(page: PageRequest, call: Call, head: Head, reader: CallReader) -> dict[str, Any]:
    return {"timing": draw_timing(call.entry)}


def _open_raw(page: PageRequest, call: Call, head: Head, reader: CallReader) -> dict[str, Any]:
    """Return template variables: both bodies, and programs that send the request again, with the chosen
    one."""
    entry, request = call.entry, describe_body(call, "request")
    data = None
    if call.request is not None and call.request.length <= MAX_PASTED_BYTES:
        data = reader.read_body(call.id, "request", MAX_PASTED_BYTES)
    programs: list[tuple[str, str]] = []
    if call.request is not None and entry.product == "messages":
        url = page.endpoint_url(entry.slug)
        programs = list_programs(read_parts(url, page.vendor, entry, data, request.file_name))
    asked = page.arguments["language"].lower()
    chosen = next((each for each in programs if each[0].lower() == asked), None)
    return {
        "bodies": (request, describe_body(call, "response")),
        "programs": programs,
        "chosen": chosen or (programs[0] if programs else None),
        "is_pasted": not any(request.file_name in program for _, program in programs),
    }


def _open_details(page: PageRequest, call: Call, head: Head, reader: CallReader) -> dict[str, Any]:
    groups, empty = facts.part_facts(facts.list_facts(call))
    return {"groups": groups, "empty": empty}


_OPEN = {
    "conversation": _open_conversation,
    "cost": _open_cost,
    "raw": _open_raw,
    "details": _open_details,
}
TEMPLATES = (*(f"call_{tab}.html" for tab in _OPEN), "trace_body.html", "trace_part.html")


def _render_body(page: PageRequest, address: Address, call: Call, reader: CallReader) -> Response:
    side = cast(Side, address.side)
    if address.view == "file":
        return _render_file(page, address, call, reader)
    view = open_view(call, address, reader, is_plain=page.is_plain)
    if view is None:
        return page.refuse(404, NO_BODY)
    return page.render(
        "trace_part.html" if address.is_part else "trace_body.html",
        call=call,
        body=describe_body(call, side),
        view=view,
        asked=address,
    )


def _render_file(page: PageRequest, address: Address, call: Call, reader: CallReader) -> Response:
    """Return an image or document of a body. Only images of four types are displayed, others are
    downloads."""
    file = open_file(call, address, reader)
    if file is None:
        return page.refuse(404, NO_BODY)
    headers = dict(FILE_HEADERS)
    if file.picture_type is None:
        place = address.place.replace(".", "-")
        name = f"call-{call.id}-{address.side}-{place}.{file.suffix}"
        headers["content-disposition"] = f'attachment; filename="{name}"'
    media_type = file.picture_type or "application/octet-stream"
    return Response(file.data, headers=headers, media_type=media_type)
