"""A call as an export with bodies writes it, and an import reads it: one JSON object.

It has the columns of ``usage_log``, the bodies, and the rows of other tables for the call: line
items of the cost, stated rate limits, the call that it continues, and its cache break. References
to other calls are by their entry ids. Sums are not included: they are computed from the calls."""

import base64
import binascii
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from metering import attribution
from metering.body_fields import read_content_fields
from metering.entry import CostItem, UsageLogEntry
from metering.rate_limits import RateLimits
from metering.token_counts import TokenCounts
from runtime.errors import InvalidInputError
from store.annotation_rules import check_label, check_note
from store.traces import annotations
from store.traces.annotations import NOTHING, Annotations, Label, Note
from store.traces.calls import cache_breaks, costs, rate_limits, tool_uses
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.calls.judgements import Judgement
from store.traces.calls.line_fields import (
    LineError,
    is_instant,
    list_fields,
    read_field,
    read_fields,
)
from store.traces.calls.reader import BODIES, Row
from store.traces.calls.tool_uses import StoredUse

# What people have given the call itself, and the session that it is in.
_GIVEN = ("annotations", "session_annotations")
DETAILS = ("cost_items", "rate_limits", "predecessor", "cache_break", "tool_uses", *_GIVEN)
# What 0.1.0 has not exported, and is read from the response.
_OF_CONTENT = ("said_text", "tool_uses")
_OPTIONAL = (*_OF_CONTENT, *_GIVEN)
_ENTRY_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_PREDECESSOR = (
    "select u.entry_id, p.failed_tools from predecessors as p join usage as u on u.id = p.previous_id"
    " where p.usage_id = ?"
)
# Fields of an entry that are not columns of the line.
_NO_COLUMNS = {"tokens", "output_size", *BODIES, *DETAILS}
# Columns that are never null, and missing in what 0.1.0 has exported: an entry then has their default.
_ADDED = {"product"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCall:
    """A call that was read from a line. ``judgement`` is None if it continues no call.

    ``annotations`` are the labels and the note of the call itself, ``session_annotations`` those of its
    session."""

    organization_id: str
    entry: UsageLogEntry
    judgement: Judgement | None
    annotations: Annotations
    session_annotations: Annotations


def encode_details(connection: sqlite3.Connection, usage_id: int) -> Iterator[bytes]:
    """Yield the part of a line after the bodies, as members of a JSON object."""
    limits = rate_limits.read_limits(connection, usage_id)
    row = connection.execute(_PREDECESSOR, (usage_id,)).fetchone()
    found = cache_breaks.find_break(connection, usage_id)
    session = annotations.find_session(connection, usage_id)
    values = (
        [each._asdict() for each in costs.read_items(connection, usage_id)],
        None if limits is None else limits._asdict(),
        None if row is None else {"entry_id": row[0], "failed_tools": row[1]},
        None if found is None else asdict(found),
        [asdict(each) for each in tool_uses.read_uses(connection, usage_id)],
        asdict(annotations.read_of_call(connection, usage_id)),
        asdict(NOTHING if session is None else annotations.read_of_session(connection, session)),
    )
    for name, value in zip(DETAILS, values, strict=True):
        yield b',"%s":%s' % (name.encode(), orjson.dumps(value, default=float))


def encode_entry(organization_id: str, entry: UsageLogEntry) -> bytes:
    """Return an entry that continues no call as a line that ``parse_row`` can read."""
    names = [name for name in list_fields(UsageLogEntry) if name not in _NO_COLUMNS]
    limits = entry.rate_limits
    row = {
        "organization_id": organization_id,
        **{name: getattr(entry, name) for name in names},
        **asdict(entry.tokens),
        **{name: _format_body(getattr(entry, name)) for name in BODIES},
        "cost_items": [each._asdict() for each in entry.cost_items],
        "tool_uses": [asdict(StoredUse.of(each)) for each in entry.tool_uses],
        "rate_limits": None if limits is None else limits._asdict(),
        "predecessor": None,
        "cache_break": None,
        **dict.fromkeys(_GIVEN, asdict(NOTHING)),
    }
    return orjson.dumps(row, default=float)


def parse_document(line: bytes) -> Row:
    """Return the JSON object of a line. Raises LineError."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise LineError(
            f"it is not JSON ({error}), which each line of `taximeter export --bodies` is"
        ) from error
    if not isinstance(row, dict):
        raise LineError("it is not a JSON object")
    return row


def parse_row(row: Row) -> ExportedCall:
    """Return the call in a row. Raises LineError."""
    needed = (*BODIES, *DETAILS)
    missing = [name for name in needed if name not in row and name not in _OPTIONAL]
    if missing:
        raise LineError(
            f"it has no {missing[0]}: export with --bodies, by this version or a newer one"
        )
    entry = _parse_entry(row)
    return ExportedCall(
        organization_id=read_field("organization_id", row, str),
        entry=entry,
        judgement=_parse_judgement(entry.entry_id, row),
        annotations=_parse_annotations("annotations", row),
        session_annotations=_parse_annotations("session_annotations", row),
    )


def _parse_entry(row: Row) -> UsageLogEntry:
    kinds = list_fields(UsageLogEntry)
    values = {
        name: read_field(name, row, kind)
        for name, kind in kinds.items()
        if name not in _NO_COLUMNS and (name in row or name not in _ADDED)
    }
    if not _ENTRY_ID.fullmatch(values["entry_id"]):
        raise LineError("its entry_id is none")
    if not is_instant(values["created_at"]):
        raise LineError("its created_at is not like 2026-01-31T14:03:27.123Z")
    _check_attribution(values)
    request, response = (_parse_body(name, row[name]) for name in BODIES)
    items = read_field("cost_items", row, list)
    return UsageLogEntry(
        **values | _read_uses(row, response),
        tokens=TokenCounts(**read_fields(TokenCounts, row)),
        request_body=request,
        response_body=response,
        cost_items=tuple(
            CostItem(**read_fields(CostItem, _as_object("cost_items", each))) for each in items
        ),
        rate_limits=_parse_object("rate_limits", row, RateLimits),
    )


def _check_attribution(values: Row) -> None:
    """Check that user, project and tags obey the rules that bound the sums by them. Raises LineError."""
    given = (values["attributed_user"], values["project"], values["tags"])
    kept = attribution.keep_valid(*given)
    if given != (kept.user, kept.project, attribution.write_tags(kept.tags)):
        raise LineError("its user, project or tags are not what an export writes")


def _read_uses(row: Row, response: bytes | None) -> dict[str, Any]:
    """Return the uses of tools of a row. If it has none, they are read from the response."""
    if "tool_uses" not in row:
        return read_content_fields(response or b"")
    uses = (
        StoredUse(**read_fields(StoredUse, _as_object("tool_uses", each))).to_use()
        for each in read_field("tool_uses", row, list)
    )
    return {"tool_uses": tuple(uses)}


def _parse_annotations(name: str, row: Row) -> Annotations:
    """Return the labels and note ``name`` of a row. Raises LineError if people could not have given them."""
    given = row.get(name)
    if given is None:
        return NOTHING
    found = _as_object(name, given)
    labels = [
        Label(**read_fields(Label, _as_object(name, each)))
        for each in read_field("labels", found, list)
    ]
    note = _parse_object("note", {"note": None} | found, Note)
    try:
        return Annotations(
            labels=tuple(replace(each, label=check_label(each.label)) for each in labels),
            note=None if note is None else replace(note, text=check_note(note.text)),
        )
    except InvalidInputError as error:
        raise LineError(f"its {name} are not what an export writes: {error}") from error


def _parse_judgement(entry_id: str, row: Row) -> Judgement | None:
    predecessor, found = row["predecessor"], _parse_object("cache_break", row, CacheBreak)
    if predecessor is None and found is None:
        return None
    given = {} if predecessor is None else _as_object("predecessor", predecessor)
    previous = found.previous_entry_id if found is not None else ""
    return Judgement(
        entry_id=entry_id,
        previous_entry_id=read_field("entry_id", given, str) if given else previous,
        failed_tools=read_field("failed_tools", given, str | None),
        cache_break=found,
    )


def _parse_object[Kind](name: str, row: Row, kind: type[Kind]) -> Kind | None:
    value = row[name]
    return None if value is None else kind(**read_fields(kind, _as_object(name, value)))


def _as_object(name: str, value: object) -> Row:
    if not isinstance(value, dict):
        raise LineError(f"its {name} is not what an export writes")
    return value


def _format_body(body: bytes | None) -> object:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return {"$base64": True, "encoded": base64.b64encode(body or b"").decode()}


def _parse_body(name: str, value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    try:
        if isinstance(value, dict) and value["$base64"] is True:
            return base64.b64decode(value["encoded"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        pass
    raise LineError(f"its {name} is neither text nor what an export writes for other bytes")
