"""``/traces/usage/<id>`` and below, as a query process makes them.

These are the page of one call, its bodies and their files.
"""

import logging
import sqlite3
from typing import cast

from starlette.responses import RedirectResponse, Response

from dashboard import rendering
from dashboard.addresses import call_address, session_address
from dashboard.cache_breaks import open_break
from dashboard.call import facts
from dashboard.call.addresses import Address, find_address
from dashboard.call.bill import make_bill
from dashboard.call.bodies import describe_body
from dashboard.call.curl import MAX_PASTED_BYTES, make_curl
from dashboard.call.failure import describe_failure
from dashboard.call.lookup import NO_BODY, NO_CALL, UNREADABLE, refuse
from dashboard.call.timing import draw_timing
from dashboard.call.views import open_file, open_new, open_response, open_view
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import FILE_HEADERS, PRIVATE
from dashboard.replay.snippets import list_languages
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import Call, CallReader, Side

logger = logging.getLogger(__name__)


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page, the body or the file that an address names. Never raises sqlite3.Error."""
    address = cast(Address, find_address(page.arguments["path"]))
    try:
        if address.entry_id is not None:
            return _redirect(page, reader.find_id(address.entry_id))
        call = reader.find_call(address.usage_id)
        if call is None:
            return _refuse(page, 404, "not_found", NO_CALL)
        if address.side is None:
            return _render_call(page, call, reader)
        return _render_body(page, address, call, reader)
    except (sqlite3.Error, MissingPieceError):
        logger.exception("a call cannot be read")
        return _refuse(page, 503, "unavailable", UNREADABLE)


def _refuse(page: PageRequest, status: int, code: str, message: str) -> Response:
    return refuse(page.caller, status, code, message, by_program=page.is_for_program)


def _redirect(page: PageRequest, usage_id: int | None) -> Response:
    if usage_id is None:
        return _refuse(page, 404, "not_found", NO_CALL)
    return RedirectResponse(call_address(usage_id), 302, PRIVATE)


def _render_call(page: PageRequest, call: Call, reader: CallReader) -> Response:
    entry = call.entry
    request = describe_body(call, "request")
    data = None
    if call.request is not None and call.request.length <= MAX_PASTED_BYTES:
        data = reader.read_body(call.id, "request", MAX_PASTED_BYTES)
    programs: list[tuple[str, str]] = []
    if call.request is not None and entry.product == "messages":
        given = page.endpoint_url(entry.slug), page.vendor, entry, data, request.file_name
        programs = [("curl", make_curl(*given)), *list_languages(*given)]
    response = open_response(call, reader, is_plain=page.is_plain)
    return rendering.render(
        "trace.html",
        visitor=page.caller,
        headers=PRIVATE,
        is_plain=page.is_plain,
        call=call,
        headline=facts.make_headline(entry),
        groups=facts.list_facts(call),
        bill=make_bill(entry),
        timing=draw_timing(entry),
        bodies=(request, describe_body(call, "response")),
        new=open_new(call, reader, is_plain=page.is_plain),
        response=response,
        failure=describe_failure(entry, response.response),
        programs=programs,
        is_pasted=not any(request.file_name in program for _, program in programs),
        session=call.session and session_address(call.session),
        broken=open_break(call),
        notices=page.arguments["notices"],
    )


def _render_body(page: PageRequest, address: Address, call: Call, reader: CallReader) -> Response:
    side = cast(Side, address.side)
    if address.view == "file":
        return _render_file(page, address, call, reader)
    view = open_view(call, address, reader, is_plain=page.is_plain)
    if view is None:
        return _refuse(page, 404, "not_found", NO_BODY)
    return rendering.render(
        "trace_part.html" if address.is_part else "trace_body.html",
        visitor=page.caller,
        headers=PRIVATE,
        is_plain=page.is_plain,
        call=call,
        body=describe_body(call, side),
        view=view,
        asked=address,
    )


def _render_file(page: PageRequest, address: Address, call: Call, reader: CallReader) -> Response:
    """Return an image or a document of a body. A browser shows four types of images and nothing
    else, and only within our pages."""
    file = open_file(call, address, reader)
    if file is None:
        return _refuse(page, 404, "not_found", NO_BODY)
    headers = dict(FILE_HEADERS)
    if file.picture_type is None:
        place = address.place.replace(".", "-")
        name = f"call-{call.id}-{address.side}-{place}.{file.suffix}"
        headers["content-disposition"] = f'attachment; filename="{name}"'
    media_type = file.picture_type or "application/octet-stream"
    return Response(file.data, headers=headers, media_type=media_type)
